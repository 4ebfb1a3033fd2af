-- How many wait in a queue: it counts no further than asked.
select (select count(*) from (select 1 from jobwright_job where queue = :queue and lock_owner is null limit :limit))
     + (select count(*) from (select 1 from jobwright_blocked_job where queue = :queue limit :limit))
