-- name: claimable
-- What a claim of a queue looks for, and the check before it: rows of its kinds that are not hidden for a delivery. A row that is hidden for more than
-- two minutes counts as visible, because only a clock that was ahead writes such a time.
state = 'waiting' and queue = :queue
      and (:include_hidden or visible_at is null or visible_at <= :now or visible_at > :now + 120000000)
      and (:kinds is null or kind in (select value from json_each(:kinds)))
      and {queue_open}

-- name: may_start
-- Whether a waiting row `job` may be claimed: it has not expired, no rule pauses it, and it was admitted if a limit covers it. The rules
-- come first: without rules and options, a row costs no more than that check.
(
    (not exists (select 1 from jobwright_rule r where r.paused or r.running is not null or r.rate is not null)
     or not exists (
        select 1 from jobwright_rule r
        where (r.paused or not job.admitted and (r.running is not null or r.rate is not null)) and {covers}
     ))
    and (job.options is null or job.options ->> 'expires' is null or job.options ->> 'expires' > :now)
)

-- name: covers
-- Whether the rule `r` applies to a row in its scope: by name, or as the rule for all that have none of their own. A pause of all applies
-- to all.
-- (Whatever else such a rule limits makes no difference to rows with their own rule: none of them starts.)
(
    r.name = {subject}
    or r.name = '*' and {subject} is not null
       and (r.paused or not exists (select 1 from jobwright_rule own where own.scope = r.scope and own.name = {subject}))
)

-- name: subject
-- The name under which a rule of a scope covers a job.
case r.scope when 'queue' then job.queue when 'kind' then job.kind when 'tenant' then job.options ->> 'tenant'
             when 'key' then job.options ->> 'limit' else job.options ->> 'group' end

-- name: queue_open
-- Whether a queue is not paused: checked once per statement, before a row of it is read.
not exists (
    select 1 from jobwright_rule q
    where q.scope = 'queue' and q.paused
      and q.name in (:queue, '*')
)

-- name: known
-- Claims in the form that `still_owned` takes.
select substr(:ids, fence.key * 16 + 1, 16), fence.value from json_each(:versions) as fence

-- name: still_owned
-- The fences as one blob of ids, 16 bytes each, and a JSON array of versions in the same order. CROSS JOIN fixes the order of the loops:
-- each id is looked up, whatever the planner believes about owned rows.
seq in (
    select job.seq
    from json_each(:versions) as fence
    cross join jobwright_job as job on job.id = substr(:ids, fence.key * 16 + 1, 16)
    where job.version = fence.value and +job.lock_owner = :node
)

-- name: may_expire
-- The jobs with a time to live that has not been used: the condition of the index on them.
options is not null and options ->> 'expires' is not null and (state = 'waiting' or state = 'blocked' or state = 'timer')

-- name: holds
-- Whether a job `job` may hold permits: it was admitted, or it is ordered and holds its group while it is not to be claimed.
(job.admitted and job.state in ('waiting', 'running', 'blocked', 'external')
    or job.state not in ('waiting', 'running', 'external') and job.options ->> 'ordered' is not null)
