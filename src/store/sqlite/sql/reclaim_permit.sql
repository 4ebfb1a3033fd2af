-- Takes back a permit.
delete from jobwright_permit where job_id = :job_id and key = :key
