-- By seq: the fence was checked in the same transaction.
delete from jobwright_job where seq = :seq
