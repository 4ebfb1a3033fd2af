-- name: hand_out_check
-- Runs on a reader, so that polling an empty queue never waits for the writer.
select exists (select 1 from jobwright_job as job where state = 'waiting' and queue = :queue and {queue_open})

-- name: hand_out
-- The returned rows have no order: the caller sorts them.
update jobwright_job
set state = 'external', version = :token, attempt = attempt + 1, claimed_at = :now, visible_at = null, lease_until = :now + :lease, lease = :lease
where seq in (
    select seq from jobwright_job as job
    where state = 'waiting' and queue = :queue and {queue_open} and {may_start}
    order by rank, seq limit :limit
)
returning {job}

-- name: what_to_reply
-- A reply is about the kind of its job, and the headers of the job may ask for one.
select kind, headers from jobwright_job where seq = :seq

-- name: late_check
-- Runs on a reader, so that a check that finds nothing takes no write lock.
select exists (select 1 from jobwright_job where lease_until <= :now)
    or exists (select 1 from jobwright_terminating_handler where until <= :now)

-- name: late_leases
-- Read from the index, the longest overdue first.
select seq, attempt, max_attempts, errors, visible_at, admitted from jobwright_job
where lease_until <= :now
order by lease_until limit :limit

-- name: late_terminating
-- Removes handlers of cancelled jobs at external workers whose lease is over.
delete from jobwright_terminating_handler where until <= :now

-- name: report_key
-- The key from which the tokens of hand-outs are made.
select key from jobwright_report_key

-- name: extend
-- If no lease is given, the original duration applies. A lease that ran out but was not released yet can be renewed: nothing was taken from
-- its worker.
update jobwright_job set lease_until = :now + coalesce(:lease, lease) where id = :id and version = :version and state = 'external'
