-- How many jobs wait in a queue. Counts no further than the limit.
select (select count(*) from (select 1 from jobwright_job where queue = :queue and lock_owner is null limit :limit))
     + (select count(*) from (select 1 from jobwright_blocked_job where queue = :queue limit :limit))
