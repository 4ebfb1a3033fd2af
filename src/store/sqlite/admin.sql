-- name: list
-- One page of one state, in the order of `seq`. `list_all` follows behind the arms of all states, and merges them.
select * from (
    select id, seq, state, kind, queue, rank, attempt, max_attempts, created_at, due_at, lock_owner as owner,
           case when lock_owner is not null then claimed_at end as claimed_at, errors ->> '$[#-1].error' as last_error
    from jobwright_job
    where seq > :after and {filter}
    order by seq
    limit :limit
)

-- name: list_all
order by seq limit :limit

-- name: state
-- One lookup in a unique index.
select state from jobwright_job where id = :id

-- name: show
-- One lookup in a unique index.
select {carried}, state, version, attempt, errors, options, errors ->> '$[#-1].error' as last_error, due_at, lock_owner as owner,
       case when lock_owner is not null then claimed_at end as claimed_at, blocked_on, dead_at, reason
from jobwright_job where id = :id
