-- name: unreadable_row
-- The values that go on record when the row itself can't be read, whatever may have been written there.
select cast(max(attempt, 0) & 2147483647 as integer) as attempt, errors, admitted from jobwright_job where seq = :seq

-- name: unreadable_jobs
-- How many of the newest dead letters have a reason that begins like this, by the index on the time of death.
select count(*) as looked_at, count(*) filter (where named) as jobs, max(case when named then dead_at end), id as example
from (
    select id, dead_at, substr(reason, 1, length(:beginning)) = :beginning as named from jobwright_job where dead_at is not null order by dead_at desc limit :limit
)
