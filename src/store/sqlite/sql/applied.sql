-- Applied migrations, in order.
select version, name, checksum, applied_at, min_compatible from jobwright_migration order by version
