-- One lookup by the primary key.
select percent, note, checkpoint, at from {schema}.progress where job_id = $1
