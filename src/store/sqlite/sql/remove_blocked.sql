-- By id: the row was read in the same transaction.
delete from jobwright_blocked_job where id = :id
