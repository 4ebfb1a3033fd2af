-- Asked on a reader, so that a look that finds nothing takes no write lock.
select exists (select 1 from jobwright_node where dead_at is not null or expires_at <= :now)
