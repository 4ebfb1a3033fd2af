-- Gives back what this node owns in a range of pages without knowing it: the answer to a claim, or to a commit, got lost on the way. Costs
-- no attempt, because no handler ran.
-- Claims are compared, and not jobs: an old handler of an id that was cancelled and sent again does not stand for the row of a later claim.
-- `is not true` keeps that from being turned into a join: the known claims are hashed once.
-- Claims that began after the look at what is in hand are left alone: their numbers come after $4 (numbers go round, so the nearer half of
-- the circle is "after"). So claims need not stop for the walk.
-- What has a gate waits there again, and the gate is opened: the lease that it was taken under may be gone already.
with back as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
    where j.ctid >= $5 and j.ctid < $6
      and lock_owner = $1
      and ((id, version) in (select * from unnest($2::uuid[], $3::int8[]))) is not true
      and ($4::int4 is null or (version::int8 - $4 + 2147483648) % 2147483648 >= 1073741824)
    returning id, gate
),
opened as (
    insert into {schema}.opening (key) select distinct gate from back where gate is not null
)
select id from back
