-- As many as one round admitted.
insert into jobwright_rate_log (key, at, n) values (:key, :now, :n)
