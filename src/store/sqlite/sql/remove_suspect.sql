-- By id: the row was copied in the same transaction.
delete from jobwright_blocked_job where id = :id and blocked_on = 'alone'
