-- By seq: the hand-out was checked in the same transaction.
delete from jobwright_external_job where seq = :seq
