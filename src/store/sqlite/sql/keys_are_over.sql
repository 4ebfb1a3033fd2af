-- Runs on a reader, so that a check that finds nothing takes no write lock.
select exists (select 1 from jobwright_unique_key where expires_at is not null and expires_at <= :now)
