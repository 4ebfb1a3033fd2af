-- The permits that an ordered job holds already.
select key from jobwright_permit where job_id = :id
