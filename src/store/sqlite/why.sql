-- name: serving_nodes
-- All nodes and their descriptions of themselves. Whether one lives is shown by its file.
select id, name, lease, dead_at is not null as dead, broker, serves, left_alone, failing from jobwright_node order by id

-- name: job_position
-- The place of a job among others, which `show` does not tell. Those before it are counted up to a limit, so that a long queue costs no more than a short one.
select j.visible_at, j.lease_until, j.admitted,
       (select count(*) from (
            select 1 from jobwright_job b
            where b.state = 'waiting' and b.queue = j.queue and (b.rank, b.seq) < (j.rank, j.seq)
            limit 10000)) as before,
       (select count(*) from jobwright_job a where a.lock_owner is not null and a.queue = j.queue) as running
from jobwright_job j where j.id = :id

-- name: key_use
-- How much of a key is taken, and how many jobs started after a time, which is the beginning of its rate's period.
select (select count(*) from jobwright_permit where key = :key) as taken,
       (select coalesce(sum(n), 0) from jobwright_rate_log where key = :key and at > :after) as starts,
       (select min(at) from jobwright_rate_log where key = :key and at > :after) as first_start

-- name: key_holders
-- The holders of a key's permits, five at most: jobs, and handlers of cancelled jobs.
select s.job_id, t.job_id as handler_of, j.kind, j.state, case when j.lock_owner is not null then j.claimed_at end as since
from jobwright_permit s
left join jobwright_terminating_handler t on t.holder = s.job_id
left join jobwright_job j on j.id = s.job_id
where s.key = :key
limit 5

-- name: waiting_classes
-- Jobs that wait or are blocked, by the properties that rules select them by and by the key that blocks them: the largest classes of the first jobs. A group is no class of its
-- own unless it blocks the job, because each may have one job. Of the columns without an aggregate, SQLite takes those of the row with the
-- smallest seq.
select count(*) as jobs, min(seq), id as first
from (
    select * from (
        select id, seq, queue, kind, blocked_on, options ->> 'tenant' as tenant, options ->> 'limit' as limit_key
        from jobwright_job
        where state = 'waiting' and (:queue is null or queue = :queue) and (:kind is null or kind = :kind)
        limit 100000
    )
    union all
    select * from (
        select id, seq, queue, kind, blocked_on, options ->> 'tenant', options ->> 'limit'
        from jobwright_job
        where blocked_on is not null and (:queue is null or queue = :queue) and (:kind is null or kind = :kind)
        limit 100000
    )
)
group by queue, kind, blocked_on, tenant, limit_key
order by jobs desc, first
limit 50
