-- One that is over is not there, whether it was pruned or not.
select kind, payload, created_at, expires_at from {schema}.result where job_id = $1 and expires_at > clock_timestamp()
