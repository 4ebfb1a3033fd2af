-- Handlers of cancelled jobs in the hands of external workers whose lease is over.
delete from jobwright_ending where until <= :now
