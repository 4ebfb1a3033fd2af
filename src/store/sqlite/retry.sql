-- name: choose
-- The jobs to retry, one arm for each state. `first` follows.
select seq, state from jobwright_job where {filter}

-- name: first
-- Oldest first.
order by seq limit :limit

-- name: retry
-- Attempts of timers stay spent. A time to live of a dead letter starts again. A job of a group waits for admission: a trigger ensures that.
update jobwright_job
set state = 'waiting', attempt = case when state = 'dead' then 0 else attempt end, due_at = null, dead_at = null, reason = null, admitted = 0,
    options = case when state = 'dead' and options ->> 'ttl' is not null
                   then json_set(options, '$.expires', :now + (options ->> 'ttl')) else options end
where {filter}

-- name: retry_later
-- As `retry`, at a later time. A timer is never delayed by it. A time to live starts again at the due date.
update jobwright_job
set state = 'timer', due_at = case when state = 'timer' then min(due_at, :due_at) else :due_at end,
    attempt = case when state = 'dead' then 0 else attempt end, dead_at = null, reason = null,
    options = case when state = 'dead' and options ->> 'ttl' is not null
                   then json_set(options, '$.expires', :due_at + (options ->> 'ttl')) else options end
where seq = :seq

-- name: dead_letter_groups
-- The newest dead letters that match; the caller groups them. `newest` follows. The plus keeps SQLite from the index on states, whose rows it would have
-- to sort.
select kind, queue, reason, dead_at, id from jobwright_job where dead_at is not null and +{filter}

-- name: newest
order by dead_at desc limit :limit
