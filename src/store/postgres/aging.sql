-- name: aging_queues
-- The queues whose jobs age, with the microseconds per priority: queues that have rows, each with the rule that applies to it.
select q.queue, r.aging
from (
    with recursive step as (
        (select c.queue from {schema}.job c where c.blocked_on is null order by c.queue limit 1)
        union all
        select (select c.queue from {schema}.job c where c.queue > step.queue and c.blocked_on is null order by c.queue limit 1) from step where step.queue is not null
    )
    select queue from step where queue is not null
    union
    select substr(blocked_on, 3) from (
        with recursive step as (
            (select b.blocked_on from {schema}.job b where b.blocked_on >= 'q:' order by b.blocked_on limit 1)
            union all
            select (select b.blocked_on from {schema}.job b where b.blocked_on > step.blocked_on order by b.blocked_on limit 1) from step where step.blocked_on like 'q:%'
        )
        select blocked_on from step where blocked_on like 'q:%'
    ) keys
) q
join {schema}.rule r on r.scope = 'queue' and r.aging is not null
 and (r.name = q.queue or r.name = '*' and not exists (select from {schema}.rule own where own.scope = 'queue' and own.name = q.queue))
where exists (select from {schema}.rule a where a.aging is not null)

-- name: age
-- Raises long-waiting jobs of one queue (:queue), waiting or blocked on its key (:blocked_on), by one priority for every :aging_us
-- microseconds of waiting.
-- Only the oldest :limit of each priority are considered: they are next in line, and the rows after them move up when they are gone. The
-- existing priorities are found by stepping through the index, so the cost does not depend on the number of waiting jobs.
-- `aged` records how much was already added, up to the best priority. So the raise can be taken back if the clock turns out to have been
-- ahead and no job has waited that long.
-- What was written by hand may not keep the others from being raised: a count that is none is zero, a job from ever ago has waited for ten
-- years, and one without an end of ever has not waited.
-- Of the jobs, only those in :ids (null = all).
-- :queue::text, :aging_us::int8, :limit::int8, :blocked_on::text, :ids::uuid[]
with recursive {old},
raised as (
    update {schema}.job j
    set rank = least(j.rank - (old.steps - old.aged), 32767)::int2,
        options = coalesce(j.options, '{}') || jsonb_build_object('aged', old.steps)
    from old
    where {briefly} and j.ctid = old.tid and old.steps <> old.aged and (:ids::uuid[] is null or old.id = any (:ids::uuid[])) and coalesce(jsonb_typeof(j.options), 'object') = 'object'
    returning j.seq
)
select count(*) from raised

-- name: aging_jobs
-- Jobs of a queue that `age` may raise, waiting or blocked on its key, the first ones of each: used to find the one that it can't raise.
-- :queue::text, :blocked_on::text, :limit::int8
(
    select id, version::int8 as version, seq
    from {schema}.job
    where queue = :queue and lock_owner is null and blocked_on is null
    order by rank, seq
    limit :limit
)
union all
(
    select id, version::int8, seq
    from {schema}.job
    where blocked_on = :blocked_on and lock_owner is null
    order by share, rank, seq
    limit :limit
)

-- name: old_jobs
-- The jobs that `age` would raise: used to go around those that it can't raise.
-- :queue::text, :aging_us::int8, :limit::int8, :blocked_on::text
with recursive {old}
select id from old where steps <> aged
