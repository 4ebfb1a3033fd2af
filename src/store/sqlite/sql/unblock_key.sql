-- Requests an admission pass for the jobs blocked on the key. A duplicate does no harm.
insert into jobwright_unblock (key) values (:key)
