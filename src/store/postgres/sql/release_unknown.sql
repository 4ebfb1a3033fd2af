-- Releases what this node owns in a range of pages without knowing it: the answer to a claim, or to a commit, got lost. Costs no attempt,
-- because no handler ran.
-- A row that is locked is waited for briefly, because a cancellation may be under way, and unknown_terminating.sql comes next.
-- A job with a key is blocked on it again, and the key is unblocked: the lease under which the job was claimed may be gone already.
-- :node::int8, :ids::uuid[], :versions::int8[], :before::int4, :from_location::tid, :to_location::tid
with back as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
    where {briefly}
      and j.ctid >= :from_location and j.ctid < :to_location
      and {unknown}
    returning id, blocked_on
),
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from back where blocked_on <> 'alone'
)
select id from back
