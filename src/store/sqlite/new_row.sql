-- name: covered
-- Whether a rule pauses or limits a message: then it can't be inserted as preclaimed.
select exists (
    select 1
    from (select :queue as queue, :kind as kind, :options as options) as job, jobwright_rule as r
    where (r.paused or r.running is not null or r.rate is not null) and {covers}
)

-- name: insert_job
-- One row per call: prepared once, within one transaction, a row costs a few microseconds. The same message twice is one job.
insert into jobwright_job ({content}, seq, state, created_at, version, attempt, lock_owner, claimed_at, visible_at, due_at, blocked_on, options)
values ({content_values}, :seq, :state, :now, :version, :attempt, :owner, :claimed_at, :visible_at, :due_at, :blocked_on, :options)
on conflict (id) do nothing

-- name: insert_jobs
-- As `insert_job`, for many rows that wait: a statement that may fire a trigger keeps a journal of the pages it changes, which costs more than the row.
insert into jobwright_job ({content}, seq, created_at, visible_at, options)
values {rows}
on conflict (id) do nothing

-- name: unblock_key
-- Requests an admission pass for the jobs blocked on the key. A duplicate does no harm.
insert into jobwright_unblock (key) values (:key)
