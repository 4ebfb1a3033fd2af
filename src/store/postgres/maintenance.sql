-- name: maintenance_due
-- Whether maintenance work is due, now or within :ahead_us microseconds: one index step per table, and some rows of each queue. An idle node asks nothing else, apart
-- from its lease. The answer includes the time, which shows whether a clock was set back. `stop` is stable, so that it
-- can be an index condition. The key of suspects is a subselect, so that no index on all blocked jobs is possible (`suspects`).
-- `queues` names those in which a job may start: :queues, whose jobs of :kinds this node runs, and :outbound, whose jobs it sends. It reads the
-- first rows of each. If none of so many may start, those behind may, so the queue counts. A paused queue is not read.
-- Jobs that are sent, and those under a limit that claims count, are claimed although they are hidden.
-- Whether such a limit has room, only a claim finds out. Waiting rows that a rule covers otherwise need an admission pass, as do keys
-- that are unblocked. `rules` is a checksum of the rules: a change that no hint has announced needs one too.
-- :ahead_us::int8, :node::int8, :queues::text[], :kinds::text[], :outbound::text[], :ahead::int8
with moment as (
    select statement_timestamp() + :ahead_us::float8 * interval '1 microsecond' as stop,
           (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8 + :ahead_us as stop_us
),
-- Whether there are rules under which waiting rows need an admission pass: any limit, or one that claims can't count.
ruled as materialized (
    select exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null) as by_any,
           exists (select from {schema}.rule r where r.paused or (r.running is not null or r.rate is not null) and not {counted}) as uncounted,
           exists (select from {schema}.rule r where (r.running is not null or r.rate is not null) and {counted}) as counted
),
served as materialized (
    select unnest(:queues::text[]) as name, true as own, (select uncounted from ruled) as is_ruled
    union all
    select unnest(:outbound::text[]), false, (select by_any from ruled)
),
{watched}
select exists (select from {schema}.timer_job where due_at <= (select stop from moment)) as timers,
       exists (select from {schema}.job
               where options ? 'expires'::text and lock_owner is null and (options ->> 'expires'::text)::int8 <= (select stop_us from moment))
           or exists (select from {schema}.timer_job
                      where options ? 'expires'::text and (options ->> 'expires'::text)::int8 <= (select stop_us from moment))
           or exists (select from {schema}.unique_key where expires_at <= statement_timestamp()) as expiry,
       exists (select from {schema}.unblock where unblock_at <= (select stop from moment))
           or exists (
               select
               from (select * from served where is_ruled) s
               cross join lateral (
                   select c.kind, c.queue, c.options
                   from {schema}.job c
                   where c.queue = s.name and c.blocked_on is null and c.lock_owner is null and not c.admitted
                     and (not s.own or c.kind = any (:kinds::text[]))
                     and {queue_open(s.name)}
                   order by c.rank, c.seq
                   limit :ahead
               ) c
               where {awaits_admission(s.own)}
           ) as admission,
       exists (select from {schema}.schedule where not paused and next_at <= (select stop from moment)) as schedules,
       exists (select from {schema}.external_job where lease_until <= statement_timestamp())
           or exists (select from {schema}.terminating_handler where until <= statement_timestamp()) as external,
       exists (select from {schema}.job where blocked_on = (select 'alone'::text) and share = '' and lock_owner is null) as suspects,
       (select ctid from {schema}.permit where key collate "C" > '' limit 1) is not null
           or (select blocked_on from {schema}.job where blocked_on > '' order by blocked_on limit 1) is not null as reconciliation,
       (select array_agg(s.name)
        from served s
        where (
            select coalesce(bool_or(c.starts), false) or count(*) = 100
            from (
                select (not s.own or c.kind = any (:kinds::text[]) and ({visible} or (select counted from ruled))) and {unexpired} as starts
                from {schema}.job c
                where c.queue = s.name and c.blocked_on is null and c.lock_owner is null
                  and {queue_open(s.name)}
                order by c.rank, c.seq
                limit 100
            ) c
        )) as queues,
       (select coalesce(sum(hashtext(r::text)::int8), 0)::int8 from {schema}.rule r) as rules,
       array(select id from watched order by id) as nodes,
       array(select heartbeats from watched order by id) as heartbeats,
       array(select lease_us from watched order by id) as leases_us,
       array(select dead from watched order by id) as dead,
       clock_timestamp() as now

-- name: promote
-- Moves due timers to waiting, earliest first, skipping those that another node is moving. Uses statement_timestamp() and not
-- clock_timestamp(), because only a stable value can be an index condition.
-- :limit::int8
with due as (
    delete from {schema}.timer_job
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.timer_job
        where due_at <= statement_timestamp()
        order by due_at
        limit :limit
        for update skip locked
    ))
    returning *
),
moved as (
    insert into {schema}.job ({carried}, version, attempt, errors, options)
    select {carried}, version::int8 & 2147483647::int8, attempt, errors, options
    from due
    on conflict (id) do nothing
    returning queue
)
select (select count(*) from due) as jobs,
       (select array_agg(distinct queue) from moved) as queues,
       -- A full batch means that there may be more: run again at once.
       case when (select count(*) from due) = :limit then 0
            else (select (extract(epoch from min(due_at) - statement_timestamp())::float8 * 1000000::float8)::int8
                  from {schema}.timer_job
                  where due_at > statement_timestamp() and due_at < 'infinity')
       end as next_us,
       -- These jobs wait for admission now.
       exists (select from due where options ? 'group'::text) as blocked

-- name: due_timers
-- The timers that `promote` would move, without their content: used to find the one that it can't move.
-- :limit::int8
select id, seq
from {schema}.timer_job
where due_at <= statement_timestamp()
order by due_at
limit :limit

-- name: promote_named
-- Moves these timers to waiting, if they are due. Like `promote`, which failed over some of them.
-- :ids::uuid[]
with due as (
    delete from {schema}.timer_job
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.timer_job
        where id = any (:ids::uuid[]) and due_at <= statement_timestamp()
        for update skip locked
    ))
    returning *
),
moved as (
    insert into {schema}.job ({carried}, version, attempt, errors, options)
    select {carried}, version::int8 & 2147483647::int8, attempt, errors, options
    from due
    on conflict (id) do nothing
    returning queue
)
select (select count(*) from due) as jobs,
       (select array_agg(distinct queue) from moved) as queues,
       (select (extract(epoch from min(due_at) - statement_timestamp())::float8 * 1000000::float8)::int8
        from {schema}.timer_job
        where due_at > statement_timestamp() and due_at < 'infinity') as next_us,
       exists (select from due where options ? 'group'::text) as blocked

-- name: prune_history
-- Removes the oldest entries, a batch at a time, skipping those that another executor is pruning, and passing over :offset rows that can't be removed
-- (store/postgres/around.rs). The application's triggers and foreign keys may wait for locks of others, so it waits briefly.
-- :age_us::int8, :limit::int8, :offset::int8
with gone as (
    delete from {schema}.history
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.history
        where ended_at < statement_timestamp() - :age_us::float8 * interval '1 microsecond'
        order by ended_at, seq
        limit :limit offset :offset
        for update skip locked
    ))
    returning 1
)
select count(*) from gone

-- name: prune_results
-- As `prune_history`.
-- :limit::int8, :offset::int8
with gone as (
    delete from {schema}.result
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.result
        where expires_at <= statement_timestamp()
        order by expires_at
        limit :limit offset :offset
        for update skip locked
    ))
    returning 1
)
select count(*) from gone

-- name: prune_progress
-- Removes the progress of jobs that are gone. No trigger removes it with its job: that would cost all jobs, and few have any. There are few
-- rows: those of running jobs, and of jobs that ended since the last check. A job that moves from table to table meanwhile is found in one
-- of them, because a statement sees all tables in the same snapshot. Each job is looked up separately, whatever the statistics say.
-- The offset and the brief wait are as in `prune_history`.
-- :limit::int8, :offset::int8
with gone as (
    delete from {schema}.progress p
    where {briefly} and p.ctid = any (array(
        select o.ctid
        from {schema}.progress o
        where (select id from {schema}.job where id = o.job_id limit 1) is null
          and (select id from {schema}.external_job where id = o.job_id limit 1) is null
          and (select id from {schema}.timer_job where id = o.job_id limit 1) is null
          and (select id from {schema}.suspended_job where id = o.job_id limit 1) is null
          and (select id from {schema}.dead_letter_job where id = o.job_id limit 1) is null
        limit :limit offset :offset
        for update skip locked
    ))
    returning 1
)
select count(*) from gone

-- name: prune_submissions
-- Removes old submissions, a batch at a time, skipping those that another executor is pruning.
-- The offset and the brief wait are as in `prune_history`.
-- :age_us::int8, :limit::int8, :offset::int8
with gone as (
    delete from {schema}.submission
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.submission
        where received_at < statement_timestamp() - :age_us::float8 * interval '1 microsecond'
        order by received_at
        limit :limit offset :offset
        for update skip locked
    ))
    returning id
)
select count(*) from gone

-- name: prune_rate_log
-- Removes starts that are older than the period of their key's rate (that of its own rule, or else of the rule for all), and those of keys
-- without a rate. Keeps a minute more than that, for admission passes in flight. :limit: the highest number of rows.
-- The offset and the brief wait are as in `prune_history`.
-- :limit::int8, :offset::int8
with rules as materialized (
    select case scope when 'key' then 'l:' else left(scope, 1) || ':' end as prefix, name, coalesce(period, 0) as period
    from {schema}.rule
),
gone as (
    delete from {schema}.rate_log
    where {briefly} and ctid = any (array(
        select l.ctid
        from {schema}.rate_log l
        left join rules own on own.prefix || own.name = l.key
        left join rules each on each.prefix = left(l.key, 2) and each.name = '*'
        where l.at < statement_timestamp() - interval '1 minute' - coalesce(own.period, each.period, 0)::float8 * interval '1 microsecond'
        limit :limit offset :offset
        for update of l skip locked
    ))
    returning 1
)
select count(*) from gone

-- name: prune_dead_letters
-- Removes the oldest dead letters, a batch at a time, skipping those that are locked by another executor or by a retry. Triggers release
-- what they held.
-- The offset and the brief wait are as in `prune_history`.
-- :age_us::int8, :limit::int8, :offset::int8
with gone as (
    delete from {schema}.dead_letter_job
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.dead_letter_job
        where dead_at < statement_timestamp() - :age_us::float8 * interval '1 microsecond'
        order by dead_at
        limit :limit offset :offset
        for update skip locked
    ))
    returning 1
)
select count(*) from gone

-- name: prune_audit
-- Removes the oldest entries, a batch at a time. They are named by id and not locked, so that a role that may read the times and delete
-- needs no other right. If another executor prunes the same ones, this statement waits for it briefly, and finds them gone.
-- The offset and the brief wait are as in `prune_history`.
-- :age_us::int8, :limit::int8, :offset::int8
with gone as (
    delete from {schema}.audit
    where {briefly} and id = any (array(
        select id
        from {schema}.audit
        where at < statement_timestamp() - :age_us::float8 * interval '1 microsecond'
        order by at
        limit :limit offset :offset
    ))
    returning 1
)
select count(*) from gone
