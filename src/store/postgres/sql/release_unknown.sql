-- Gives back what this node owns without knowing it: the answer to a claim, or to a commit, got lost on the way. Costs no
-- attempt, because no handler ran.
update {schema}.job
set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
where lock_owner = $1 and id <> all ($2::uuid[])
returning id
