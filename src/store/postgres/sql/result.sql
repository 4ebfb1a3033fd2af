-- An expired result is not returned, whether it was pruned or not.
select kind, payload, created_at, expires_at from {schema}.result where job_id = $1 and expires_at > clock_timestamp()
