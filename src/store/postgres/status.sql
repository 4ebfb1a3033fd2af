-- name: status_sample
-- Jobs by queue, state and owner in a sample of pages of each table, and which share of the table that is. A table with at most :pages pages is read as a whole,
-- so its counts are exact, and most installations need nothing else: one statement, which sees each job in one table. The same pages are read each time
-- (`repeatable`), so the estimates do not jump. A table of which nothing was found has a row too, for its share. Whether a job of `job` is blocked is said by
-- `part`, and whether it runs by `owner`.
-- :pages::int8
select e.part, e.share, c.queue, c.owner::int8 as owner, coalesce(c.jobs, 0)::int8 as jobs, coalesce(c.overdue, 0)::int8 as overdue,
       extract(epoch from clock_timestamp() - c.oldest)::float8 as oldest_seconds, extract(epoch from clock_timestamp() - c.due)::float8 as due_seconds
from (
    values ('plain', {share:job}), ('blocked', {share:job}), ('timer', {share:timer_job}), ('suspended', {share:suspended_job}),
           ('dead', {share:dead_letter_job}), ('external', {share:external_job})
) e(part, share)
left join (
    select case when j.blocked_on is null then 'plain' else 'blocked' end as part, j.queue, j.lock_owner as owner, count(*) as jobs, 0 as overdue,
           min(j.created_at) filter (where j.blocked_on is null and j.lock_owner is null and isfinite(j.created_at)) as oldest, null::timestamptz as due
    from (select * from {sampled:job}) j
    group by 1, 2, 3
    union all
    select 'timer', t.queue, null, count(*), count(*) filter (where t.due_at < statement_timestamp()), null,
           min(t.due_at) filter (where t.due_at < statement_timestamp() and isfinite(t.due_at))
    from (select * from {sampled:timer_job}) t
    group by t.queue
    union all
    select 'suspended', s.queue, null, count(*), 0, null, null from (select * from {sampled:suspended_job}) s group by s.queue
    union all
    select 'dead', d.queue, null, count(*), 0, null, null from (select * from {sampled:dead_letter_job}) d group by d.queue
    union all
    select 'external', x.queue, null, count(*), 0, null, null from (select * from {sampled:external_job}) x group by x.queue
) c on c.part = e.part

-- name: status_walk
-- The same for large tables: the first jobs of each queue, by the indexes that begin with the queue. The queues, and in `job` the pairs of queue and rank
-- (lanes), are few: they are found by stepping from one to the next, and never by grouping. Of each, :most jobs are counted, or fewer where there are many:
-- together about :all, and of each at least :least. `more` says that a part of a queue has more than were counted. Running jobs are mostly the first of their
-- lane. One statement, so that a job that moves meanwhile is counted once.
-- :most::int8, :all::int8, :least::int8
with recursive lanes as (
    (select queue, rank from {schema}.job where queue >= '' and blocked_on is null order by queue, rank limit 1)
    union all
    select n.queue, n.rank
    from lanes l
    cross join lateral (
        select j.queue, j.rank from {schema}.job j where (j.queue, j.rank) > (l.queue, l.rank) and j.blocked_on is null order by j.queue, j.rank limit 1
    ) n
),
blocked as (
    (select queue from {schema}.job where queue >= '' and blocked_on > '' order by queue limit 1)
    union all
    select n.queue
    from blocked b
    cross join lateral (select j.queue from {schema}.job j where j.queue > b.queue and j.blocked_on > '' order by j.queue limit 1) n
),
timers as (
    (select queue from {schema}.timer_job where queue >= '' order by queue limit 1)
    union all
    select n.queue from timers t cross join lateral (select j.queue from {schema}.timer_job j where j.queue > t.queue order by j.queue limit 1) n
),
suspended as (
    (select queue from {schema}.suspended_job where queue >= '' order by queue limit 1)
    union all
    select n.queue from suspended s cross join lateral (select j.queue from {schema}.suspended_job j where j.queue > s.queue order by j.queue limit 1) n
),
dead as (
    (select queue from {schema}.dead_letter_job where queue >= '' order by queue limit 1)
    union all
    select n.queue from dead d cross join lateral (select j.queue from {schema}.dead_letter_job j where j.queue > d.queue order by j.queue limit 1) n
),
counted as materialized (
    select greatest(:least, least(:most, :all / greatest((select count(*) from lanes), 1))) as lane,
           greatest(:least, least(:most, :all / greatest((select count(*) from blocked), 1))) as blocked,
           greatest(:least, least(:most, :all / greatest((select count(*) from timers), 1))) as timer,
           greatest(:least, least(:most, :all / greatest((select count(*) from suspended), 1))) as suspended,
           greatest(:least, least(:most, :all / greatest((select count(*) from dead), 1))) as dead
)
select c.part, c.queue, c.owner::int8 as owner, c.jobs::int8 as jobs, c.overdue::int8 as overdue,
       extract(epoch from clock_timestamp() - c.oldest)::float8 as oldest_seconds, extract(epoch from clock_timestamp() - c.due)::float8 as due_seconds,
       c.more
from (
    select 'plain' as part, l.queue, f.owner, sum(f.jobs) as jobs, 0 as overdue, min(f.oldest) as oldest, null::timestamptz as due,
           bool_or(f.walked > (select lane from counted)) as more
    from lanes l
    cross join lateral (
        select w.lock_owner as owner, count(*) as jobs, (sum(count(*)) over ())::int8 as walked,
               min(w.created_at) filter (where w.lock_owner is null and isfinite(w.created_at)) as oldest
        from (
            select j.lock_owner, j.created_at
            from {schema}.job j
            where j.queue = l.queue and j.rank = l.rank and j.blocked_on is null
            order by j.seq
            limit (select lane + 1 from counted)
        ) w
        group by w.lock_owner
    ) f
    group by l.queue, f.owner
    union all
    select 'blocked', b.queue, f.owner, f.jobs, 0, null, null, f.walked > (select blocked from counted)
    from blocked b
    cross join lateral (
        select w.lock_owner as owner, count(*) as jobs, (sum(count(*)) over ())::int8 as walked
        from (
            select j.lock_owner
            from {schema}.job j
            where j.queue = b.queue and j.blocked_on > ''
            order by j.seq
            limit (select blocked + 1 from counted)
        ) w
        group by w.lock_owner
    ) f
    union all
    select 'timer', t.queue, null, f.jobs, 0, null, null, f.jobs > (select timer from counted)
    from timers t
    cross join lateral (
        select count(*) as jobs from (select from {schema}.timer_job j where j.queue = t.queue limit (select timer + 1 from counted)) w
    ) f
    union all
    -- Those that have been due for the longest, of all queues. As long as executors run there are few.
    select 'overdue', w.queue, null, count(*), count(*), null, min(w.due_at) filter (where isfinite(w.due_at)), (sum(count(*)) over ())::int8 > :all
    from (select j.queue, j.due_at from {schema}.timer_job j where j.due_at < statement_timestamp() order by j.due_at limit :all + 1) w
    group by w.queue
    union all
    select 'suspended', s.queue, null, f.jobs, 0, null, null, f.jobs > (select suspended from counted)
    from suspended s
    cross join lateral (
        select count(*) as jobs from (select from {schema}.suspended_job j where j.queue = s.queue limit (select suspended + 1 from counted)) w
    ) f
    union all
    select 'dead', d.queue, null, f.jobs, 0, null, null, f.jobs > (select dead from counted)
    from dead d
    cross join lateral (
        select count(*) as jobs from (select from {schema}.dead_letter_job j where j.queue = d.queue limit (select dead + 1 from counted)) w
    ) f
    union all
    -- How many jobs are handed out is bounded by `queues.NAME.depth`, so there is no index on the queue.
    select 'external', w.queue, null, count(*), 0, null, null, (sum(count(*)) over ())::int8 > :all
    from (select x.queue from {schema}.external_job x where x.lease_until >= '-infinity'::timestamptz order by x.lease_until limit :all + 1) w
    group by w.queue
) c

-- name: status_nodes
-- All nodes. How many jobs each owns is counted with the queues.
select n.id, n.name, n.host, n.pid, n.started_at, extract(epoch from n.expires_at - clock_timestamp())::float8 as lease_seconds_left,
       n.dead_at is not null as dead, n.broker, n.serves, n.left_alone, n.failing
from {schema}.node n
order by n.id

-- name: sql_workers
-- Programs that take jobs by SQL, a row for each name and queue: those that asked for jobs within a day, and those that hold jobs. Of these, the first are
-- counted whose leases end first.
-- :all::int8
select t.name, t.queue, bool_or(t.noted) as noted, (array_agg(t.kinds order by t.heard_at desc) filter (where t.noted))[1] as kinds,
       sum(t.held)::int8 as held, max(t.heard_at) as heard_at,
       max(t.heard_at) > statement_timestamp() - interval '1 minute' or coalesce(max(t.until) > statement_timestamp(), false) as alive
from (
    select w.name, w.queue, true as noted, to_jsonb(w.kinds) as kinds, 0::int8 as held, w.heard_at, null::timestamptz as until
    from {schema}.worker w
    where w.heard_at > statement_timestamp() - interval '1 day'
    union all
    select h.worker, h.queue, false, null, count(*), max(h.lease_until - h.lease), max(h.lease_until)
    from (
        select x.worker, x.queue, x.lease, x.lease_until
        from {schema}.external_job x
        where x.lease_until >= '-infinity'::timestamptz
        order by x.lease_until
        limit :all
    ) h
    where h.worker is not null
    group by h.worker, h.queue
) t
group by t.name, t.queue
order by t.name, t.queue
