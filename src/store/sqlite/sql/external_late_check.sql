-- Runs on a reader, so that a check that finds nothing takes no write lock.
select exists (select 1 from jobwright_external_job where lease_until <= :now)
    or exists (select 1 from jobwright_terminating_handler where until <= :now)
