-- name: serving_nodes
-- All nodes and their descriptions of themselves. A lease that has just ended is no proof of a death: the clock of a
-- server that was promoted may be ahead.
select n.id, n.name, n.dead_at is not null as dead, n.dead_at is null and n.expires_at + n.lease > clock_timestamp() as alive, n.broker, n.serves, n.left_alone, n.failing
from {schema}.node n
order by n.id

-- name: job_position
-- The place of a job among others, which `show` does not tell. Others are counted up to a limit, so that a long queue costs no more than a short one.
-- Running jobs are the first of their queue, apart from those that came later with a higher priority.
-- :id::uuid
select clock_timestamp() as now, j.visible_at, e.lease_until, e.worker, coalesce(j.admitted, false) as admitted,
       (select count(*) from (
            select from {schema}.job b
            where b.queue = j.queue and b.blocked_on is null and b.lock_owner is null and (b.rank, b.seq) < (j.rank, j.seq)
            limit 10000) before)::int8 as before,
       (select count(*) filter (where a.lock_owner is not null) from (
            select a.lock_owner from {schema}.job a where a.queue = j.queue and a.blocked_on is null order by a.rank, a.seq limit 10000) a)::int8 as running
from (select :id as id) asked
left join {schema}.job j on j.id = asked.id
left join {schema}.external_job e on e.id = asked.id

-- name: key_uses
-- How much of each key is taken, by permits and by the counts of claims, and how many jobs started within the period of its rate (0 = it has none). Each key
-- is looked up separately, as in `admit_usage`.
-- :keys::text[], :periods_us::int8[]
select k.key,
       (select count(s.ctid) from {schema}.permit s where s.key collate "C" = k.key)
           + (select coalesce(sum(u.n), 0) from {schema}.usage u where u.key = k.key)::int8 as taken,
       coalesce(l.n, 0)::int8 as starts, l.first_start
from unnest(:keys::text[], :periods_us::int8[]) k(key, period)
cross join lateral (
    select sum(n) as n, min(at) as first_start
    from {schema}.rate_log
    where k.period > 0 and key = k.key and at > statement_timestamp() - k.period::float8 * interval '1 microsecond'
) l

-- name: key_holders
-- The holders of some keys' permits, five of each at most: jobs, handlers of cancelled jobs, and nodes that run the jobs of a group one after the other; and
-- the nodes that run jobs which their claims counted. Permits are found by their places alone, so that no plan reads the primary key, which begins with
-- the job.
-- :keys::text[]
select k.key, h.job_id, h.node, h.handler_of, j.kind, j.state, j.claimed_at, 1::int8 as jobs
from unnest(:keys::text[]) k(key)
cross join lateral (
    select s.job_id, s.node, (select t.job_id from {schema}.terminating_handler t where t.holder = s.job_id) as handler_of
    from (select p.ctid as tid from {schema}.permit p where p.key collate "C" = k.key limit 5) found
    join {schema}.permit s on s.ctid = found.tid
) h
left join lateral (select v.kind, v.state, v.claimed_at from {schema}.jobs v where v.id = h.job_id limit 1) j on true
union all
select k.key, null, u.node, null, null, null, null, u.n::int8
from unnest(:keys::text[]) k(key)
cross join lateral (select u.node, u.n from {schema}.usage u where u.key = k.key and u.n > 0 order by u.n desc limit 5) u

-- name: waiting_classes
-- Jobs that wait or are blocked, by the properties that rules select them by and by the key that blocks them: the largest classes of the first jobs. A group is no class of its
-- own unless it blocks the job, because each may have one job. The two conditions are those of the indexes by queue.
-- :queue::text, :kind::text
select count(*)::int8 as jobs, (array_agg(c.id order by c.seq))[1] as first
from (
    (select j.id, j.seq, j.queue, j.kind, j.blocked_on, j.options ->> 'tenant'::text as tenant, j.options ->> 'limit'::text as limit_key
     from {schema}.job j
     where j.blocked_on is null and j.lock_owner is null and (:queue is null or j.queue = :queue) and (:kind is null or j.kind = :kind)
     limit 100000)
    union all
    (select j.id, j.seq, j.queue, j.kind, j.blocked_on, j.options ->> 'tenant'::text, j.options ->> 'limit'::text
     from {schema}.job j
     where j.blocked_on > '' and j.lock_owner is null and (:queue is null or j.queue = :queue) and (:kind is null or j.kind = :kind)
     limit 100000)
) c
group by c.queue, c.kind, c.blocked_on, c.tenant, c.limit_key
order by jobs desc, first
limit 50
