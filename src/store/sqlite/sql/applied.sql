-- Applied migrations, in order.
select version, name, checksum, applied_at, min_compatible, is_filled from jobwright_migration order by version
