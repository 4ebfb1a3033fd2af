-- Releases what a claim took whose answer got lost, where it is known which rows that can be. Costs no attempt, because no handler ran.
update {schema}.job set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
where id = any ($3::uuid[]) and lock_owner = $1 and version = $2
returning id
