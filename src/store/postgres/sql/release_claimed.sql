-- Releases what a claim took whose answer got lost, where it is known which rows that can be. Costs no attempt, because no handler ran.
-- :node::int8, :claim::int4, :ids::uuid[]
update {schema}.job set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
where {briefly} and id = any (:ids::uuid[]) and lock_owner = :node and version = :claim
returning id
