-- name: repair_unblocks
-- Keys that a rate unblocks later than any period lasts: the clock was ahead. They are unblocked now, and an admission pass finds out
-- whether jobs may start.
with ahead as materialized (
    select ctid as tid, case when isfinite(unblock_at) then extract(epoch from unblock_at - statement_timestamp())::float8 * 1000000::float8 end as by
    from {schema}.unblock
    where unblock_at > statement_timestamp() + interval '1 second'
                     + coalesce((select max(period) from {schema}.rule), 0)::float8 * interval '1 microsecond'
    for update skip locked
),
repaired as (
    update {schema}.unblock o set unblock_at = statement_timestamp() from ahead where o.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead

-- name: repair_rates
-- Starts in the future count as now: their real time is not known any more, and a rate is better enforced for too long than broken.
with ahead as materialized (
    select ctid as tid, extract(epoch from at - statement_timestamp())::float8 * 1000000::float8 as by
    from {schema}.rate_log
    where at > statement_timestamp() + interval '1 second'
    for update skip locked
),
repaired as (
    update {schema}.rate_log l set at = statement_timestamp() from ahead where l.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead

-- name: repair_leases
-- A job that was handed out in the future counts as handed out now, and its lease keeps its length. A lease that was extended while the
-- clock was ahead ends no later than the longest that a worker may ask for (:longest_us), or the one that it was handed out with.
-- :longest_us::int8
with ahead as materialized (
    select ctid as tid, greatest(handed_at - statement_timestamp(), interval '0') as early,
           extract(epoch from lease_until - statement_timestamp() - lease)::float8 * 1000000::float8 as by
    from {schema}.external_job
    where handed_at > statement_timestamp() + interval '1 second'
       or lease_until > statement_timestamp() + interval '1 second' + greatest(lease, :longest_us::float8 * interval '1 microsecond')
    for update skip locked
),
repaired as (
    update {schema}.external_job e
    set handed_at = e.handed_at - ahead.early,
        lease_until = least(e.lease_until - ahead.early,
                            statement_timestamp() + greatest(e.lease, :longest_us::float8 * interval '1 microsecond'))
    from ahead
    where e.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead

-- name: repair_lives
-- Times to live of waiting jobs that began in the future begin now. Only the farthest ends are checked, which are read from the end of
-- their index: what a clock that was far ahead wrote is among them, and nearer ones are late by less. `repair_timer_lives` is the same for timers
-- (statements.rs).
-- :limit::int8
with ahead as materialized (
    select j.ctid as tid,
           least(floor(case when jsonb_typeof(j.options -> 'ttl'::text) = 'number' then (j.options ->> 'expires'::text)::numeric - (j.options ->> 'ttl'::text)::numeric end), 4000000000000000000)::int8 - (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8 as by
    from {schema}.job j
    where j.ctid = any (array(
        select c.ctid
        from {schema}.job c
        where c.options ? 'expires'::text and c.lock_owner is null
        order by (c.options ->> 'expires'::text)::int8 desc
        limit :limit
    ))
      and case when jsonb_typeof(j.options -> 'ttl'::text) = 'number' then (j.options ->> 'expires'::text)::numeric - (j.options ->> 'ttl'::text)::numeric end > (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8::numeric + 1000000::numeric
    for update skip locked
),
repaired as (
    update {schema}.job j
    set options = jsonb_set(j.options, '{expires}', to_jsonb((j.options ->> 'expires'::text)::int8 - ahead.by))
    from ahead
    where j.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead

-- name: repair_retries
-- Attempts that failed in the future failed now: the delay before the next one is counted from here. Only the farthest timers are checked.
-- A requested delay is left alone, and so is a timer that is due before that failure: it was repaired before.
-- :limit::int8
with ahead as materialized (
    select t.ctid as tid, (t.errors -> -1 ->> 'at'::text)::timestamptz - statement_timestamp() as early
    from {schema}.timer_job t
    where t.ctid = any (array(select c.ctid from {schema}.timer_job c order by c.due_at desc limit :limit))
      and (t.errors -> -1 ->> 'at'::text)::timestamptz > statement_timestamp() + interval '1 second'
      and t.due_at > (t.errors -> -1 ->> 'at'::text)::timestamptz
    for update skip locked
),
repaired as (
    update {schema}.timer_job t set due_at = t.due_at - ahead.early from ahead where t.ctid = ahead.tid
)
select count(*) as n, coalesce(max(extract(epoch from early)::float8 * 1000000::float8), 0)::int8 as far_us from ahead

-- name: repair_uniques
-- A key that was taken for a period in the future counts as taken now, and is held for the requested period. Checks the :limit keys that
-- are held longest: they come first in the index.
-- :limit::int8
with last as materialized (
    select ctid as tid, taken_at, expires_at
    from {schema}.unique_key
    where expires_at > statement_timestamp() + interval '1 second'
    order by expires_at desc
    limit :limit
),
ahead as materialized (
    select k.ctid as tid, k.taken_at - statement_timestamp() as by
    from {schema}.unique_key k
    join last on k.ctid = last.tid
    where k.taken_at > statement_timestamp() + interval '1 second'
    for update of k skip locked
),
repaired as (
    update {schema}.unique_key k
    set taken_at = k.taken_at - ahead.by, expires_at = k.expires_at - ahead.by
    from ahead
    where k.ctid = ahead.tid
)
select count(*) as n, coalesce(max(extract(epoch from by)::float8 * 1000000::float8), 0)::int8 as far_us from ahead

-- name: clock_skew
-- Times of past events that lie in the future: the clock was ahead when they were written. One second of tolerance. Times of future events
-- are judged by how far ahead they can legitimately be. A time without an end counts as one that is 8,000 years away.
-- Times with an index are read from its end, up to a limit. Others are looked for in samples, which are whole tables where these are small or :pages is large.
-- :hold_us::int8, :pages::int8
select what, n, (extract(epoch from least(far, 'epoch'::timestamptz + interval '8000 years') - statement_timestamp())::float8 * 1000000::float8)::int8 as far_us
from (
    select 'node.started_at' as what, count(*) as n, max(started_at) as far from {schema}.node where started_at > statement_timestamp() + interval '1 second'
    union all
    select 'node.dead_at' as what, count(*) as n, max(dead_at) as far from {schema}.node where dead_at > statement_timestamp() + interval '1 second'
    union all
    select j.what, count(*), max(j.at)
    from (select * from {sampled:job}) s
    cross join lateral (
        values ('job.created_at', s.created_at, interval '1 second'), ('job.claimed_at', s.claimed_at, interval '1 second'),
               ('job.visible_at', s.visible_at, :hold_us::float8 * interval '1 microsecond')
    ) j(what, at, tolerance)
    where j.at > statement_timestamp() + j.tolerance
    group by j.what
    union all
    select 'timer_job.created_at' as what, count(*) as n, max(created_at) as far from (select * from {sampled:timer_job}) s where created_at > statement_timestamp() + interval '1 second'
    union all
    select 'suspended_job.suspended_at' as what, count(*) as n, max(suspended_at) as far from (select * from {sampled:suspended_job}) s where suspended_at > statement_timestamp() + interval '1 second'
    union all
    select 'external_job.handed_at' as what, count(*) as n, max(handed_at) as far from (select * from {sampled:external_job}) s where handed_at > statement_timestamp() + interval '1 second'
    union all
    select 'rate_log.at' as what, count(*) as n, max(at) as far from (select * from {sampled:rate_log}) s where at > statement_timestamp() + interval '1 second'
    union all
    select 'result.created_at' as what, count(*) as n, max(created_at) as far from (select * from {sampled:result}) s where created_at > statement_timestamp() + interval '1 second'
    union all
    select 'progress.at' as what, count(*) as n, max(at) as far from (select * from {sampled:progress}) s where at > statement_timestamp() + interval '1 second'
    union all
    select 'dead_letter_job.dead_at' as what, count(*) as n, max(dead_at) as far
    from (select dead_at from {schema}.dead_letter_job where dead_at > statement_timestamp() + interval '1 second' order by dead_at desc limit :pages * 10) s
    union all
    select 'submission.received_at' as what, count(*) as n, max(received_at) as far
    from (select received_at from {schema}.submission where received_at > statement_timestamp() + interval '1 second' order by received_at desc limit :pages * 10) s
    union all
    select 'history.ended_at' as what, count(*) as n, max(ended_at) as far
    from (select ended_at from {schema}.history where ended_at > statement_timestamp() + interval '1 second' order by ended_at desc limit :pages * 10) s
    union all
    select 'audit.at' as what, count(*) as n, max(at) as far
    from (select at from {schema}.audit where at > statement_timestamp() + interval '1 second' order by at desc limit :pages * 10) s
    union all
    select 'rule.changed_at' as what, count(*) as n, max(changed_at) as far from {schema}.rule where changed_at > statement_timestamp() + interval '1 second'
    union all
    select 'schedule.last_at' as what, count(*) as n, max(last_at) as far from {schema}.schedule where last_at > statement_timestamp() + interval '1 second'
    union all
    select 'unblock.unblock_at', count(*), max(unblock_at)
    from (select * from {sampled:unblock}) s
    where unblock_at > statement_timestamp() + interval '1 second'
                     + coalesce((select max(period) from {schema}.rule), 0)::float8 * interval '1 microsecond'
) every
where n > 0
order by what
