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

-- name: given_back
-- A claimed job whose handler did not run waits again, and keeps its attempt. A suspect (`suspects`) is one again.
state = case when visible_at = -1 then 'blocked' else 'waiting' end, blocked_on = case when visible_at = -1 then 'alone' end,
    visible_at = null, lock_owner = null, claimed_at = null, attempt = max(attempt - 1, 0)

-- name: stuck
-- Keys (`b.blocked_on`) that jobs are blocked on although no permit and no rule holds them up, and that nothing will unblock. The holder of a permit
-- unblocks its key when it ends, and a rate says when it allows more. Otherwise only a rule that lets nothing start is a reason to be blocked, and
-- whatever ends that unblocks the key. Suspects (`suspects`) wait for an idle node.
from (select blocked_on, substr(blocked_on, 3) as name,
             case substr(blocked_on, 1, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
      from (select distinct blocked_on from jobwright_job where blocked_on <> 'alone') g) b
where {unopened}

-- name: unopened
-- Whether nothing holds a key `b.blocked_on` of this `b.scope` and `b.name`, and nothing will open it: see `stuck`.
not exists (select 1 from jobwright_permit s where s.key = b.blocked_on)
  and not exists (select 1 from jobwright_unblock o where o.key = b.blocked_on)
  and not exists (select 1 from jobwright_rule r
                  where r.scope = b.scope and (r.paused or r.running = 0)
                    and (r.name = b.name
                         or r.name = '*' and (r.paused or not exists (select 1 from jobwright_rule own where own.scope = b.scope and own.name = b.name))))

-- name: orphaned
-- Whether a permit `s` has no holder.
not exists (select 1 from jobwright_job job where job.id = s.job_id and {holds})
  and not exists (select 1 from jobwright_terminating_handler e where e.holder = s.job_id)
