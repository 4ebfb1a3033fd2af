-- Removes handlers of cancelled jobs at external workers whose lease is over.
delete from jobwright_terminating_handler where until <= :now
