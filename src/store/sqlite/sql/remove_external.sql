-- By its place in the table: the hand-out was checked in the same transaction.
delete from jobwright_external_job where seq = :seq
