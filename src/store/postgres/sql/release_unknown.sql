-- Releases what this node owns in a range of pages without knowing it: the answer to a claim, or to a commit, got lost. Costs no attempt,
-- because no handler ran.
-- Compares claims, and not jobs: the old handler of an id that was cancelled and sent again does not account for the row of a later claim.
-- `is not true` keeps the planner from turning that into a join: the known claims are hashed once.
-- Claims that began after the known claims were listed are left alone: their numbers come after :before (numbers wrap around, so the
-- nearer half of the circle is "after"). So claims need not stop for the walk.
-- A row that is locked is waited for briefly, because a cancellation may be under way, and unknown_terminating.sql comes next.
-- A job with a key is blocked on it again, and the key is unblocked: the lease under which the job was claimed may be gone already.
-- Of the jobs, only those in :only (null = all).
-- :node::int8, :ids::uuid[], :versions::int8[], :before::int4, :from_location::tid, :to_location::tid
-- :only::uuid[]
with back as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
    where {briefly}
      and j.ctid >= :from_location and j.ctid < :to_location
      and lock_owner = :node
      and ((id, version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is not true
      and (:before::int4 is null or (version::int8 - :before + 2147483648) % 2147483648 >= 1073741824)
      and (:only::uuid[] is null or id = any (:only::uuid[]))
    returning id, blocked_on
),
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from back where blocked_on is not null
)
select id from back
