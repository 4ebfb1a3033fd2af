-- Removes a suspect by its id: suspect_to_job has copied the row in the same transaction.
delete from jobwright_blocked_job where id = :id and blocked_on = 'alone'
