-- An expired result is not returned, whether it was pruned or not.
select kind, payload, created_at, expires_at from jobwright_result where job_id = :id and expires_at > :now
