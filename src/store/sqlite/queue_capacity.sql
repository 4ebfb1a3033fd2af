-- name: has_depth
-- Most installations have no depth limits, and pay for no more than this.
select exists (select 1 from jobwright_rule where depth is not null)

-- name: count_waiting
-- How many jobs wait in a queue. Counts no further than the limit.
select (select count(*) from (select 1 from jobwright_job where queue = :queue and state = 'waiting' limit :limit))
     + (select count(*) from (select 1 from jobwright_job where queue = :queue and blocked_on is not null limit :limit))
