-- Gives back what this node owns in a range of pages without knowing it: the answer to a claim, or to a commit, got lost on the way. Costs
-- no attempt, because no handler ran.
-- Claims that began after the look at what is in hand are left alone: their numbers come after $3 (numbers go round, so the nearer half of
-- the circle is "after"). So claims need not stop for the walk.
update {schema}.job j
set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
where j.ctid >= $4 and j.ctid < $5
  and lock_owner = $1
  and id <> all ($2::uuid[])
  and ($3::int4 is null or (version::int8 - $3 + 2147483648) % 2147483648 >= 1073741824)
returning id
