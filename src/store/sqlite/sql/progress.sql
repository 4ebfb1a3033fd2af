-- One lookup by the primary key.
select percent, note, checkpoint, at from jobwright_progress where job_id = :id
