-- What an ordered job holds already.
select key from jobwright_slot where job_id = :id
