-- name: waiting_kinds
-- The waiting jobs of these queues by kind. No index has the kind, so rows are read: of each queue those that claims take first, through `job_acquire`,
-- and no more than a limit, however many wait. Running jobs, which that index has too, are few. The order keeps the planner from reading the table instead.
-- :queues::text[], :each::int8
select f.queue, f.kind, count(*) as waiting, extract(epoch from clock_timestamp() - min(f.created_at))::float8 as oldest_waiting_seconds
from unnest(:queues) as q (queue)
cross join lateral (
    select j.queue, j.kind, j.created_at
    from {schema}.job j
    where j.queue = q.queue and j.blocked_on is null and j.lock_owner is null
    order by j.rank, j.seq
    limit :each
) f
group by f.queue, f.kind
