-- An expired result is not returned, whether it was pruned or not.
-- :id::uuid
select kind, payload, created_at, expires_at from {schema}.result where job_id = :id and expires_at > clock_timestamp()
