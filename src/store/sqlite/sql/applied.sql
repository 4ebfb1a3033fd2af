-- What was applied, in order.
select version, name, checksum, applied_at from jobwright_migration order by version
