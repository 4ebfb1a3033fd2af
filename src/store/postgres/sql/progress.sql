-- One lookup by the primary key.
-- :id::uuid
select percent, note, checkpoint, at from {schema}.progress where job_id = :id
