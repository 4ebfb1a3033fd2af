-- name: choose
-- The jobs that an operator chose, one arm for each state. `oldest_first` follows.
select seq, id from jobwright_job where {filter}

-- name: oldest_first
order by seq

-- name: suspend
-- A timer keeps its due date, and an ordered job its group.
update jobwright_job
set state = 'suspended', suspended_at = :now, blocked_on = null, share = '', visible_at = null, admitted = 0
where {filter}

-- name: resume
-- A job of a group waits for admission: a trigger ensures that.
update jobwright_job
set state = case when due_at > :now then 'timer' else 'waiting' end, due_at = case when due_at > :now then due_at end, suspended_at = null,
    admitted = 0
where {filter}

-- name: run_now
-- As `resume`, for jobs whose due date is ahead, too.
update jobwright_job set state = 'waiting', due_at = null, suspended_at = null, admitted = 0 where {filter}

-- name: change
-- Changes jobs in place. Moving to another queue invalidates earlier deliveries, so the version rises. A moved job remembers the queue that it was sent
-- to, so that its sender may send it again (`known_as`). Options that are no JSON stay as they are.
update jobwright_job
set rank = coalesce(:to_rank, rank), max_attempts = coalesce(:to_attempts, max_attempts),
    version = (version + (queue <> coalesce(:to_queue, queue))) & 2147483647, queue = coalesce(:to_queue, queue),
    options = case when queue <> coalesce(:to_queue, queue) and coalesce(json_valid(options), true)
                   then json_set(coalesce(options, '{}'), '$.sentTo', coalesce(json_extract(options, '$.sentTo'), queue)) else options end{moved}
where {filter}

-- name: moved
-- The rest of `change` if the queue or the due date changes. A job that waits or is blocked starts over, as if it had just been sent: it keeps nothing
-- but its group, if it is ordered. The due date of one that waits makes it a timer only if it is ahead. A dead letter has no due date.
, state = case when state not in ('waiting', 'blocked') then state when :to_due > :now then 'timer' else 'waiting' end,
due_at = case when state in ('timer', 'suspended') then coalesce(:to_due, due_at) when state <> 'dead' and :to_due > :now then :to_due end,
blocked_on = null, share = '', visible_at = null, admitted = 0

-- name: transfer_permits
-- Records the handlers of running jobs that an operator cancels, if they hold anything (a trigger transfers that), and if a live node or an
-- external worker can still report their end.
insert into jobwright_terminating_handler (holder, job_id, version, node, until)
select randomblob(16), id, version, lock_owner, lease_until
from jobwright_job
where admitted and state in ('running', 'external')
  and exists (select 1 from jobwright_permit where job_id = jobwright_job.id)
  and (lock_owner is null or exists (select 1 from jobwright_node where jobwright_node.id = lock_owner and dead_at is null))
  and {filter}

-- name: remove
-- Removes the jobs that an operator chose.
delete from jobwright_job where {filter}

-- name: evict
-- By hand. A node that was dead before died of something else.
update jobwright_node set evicted = evicted or dead_at is null, dead_at = coalesce(dead_at, :now) where id = :node
