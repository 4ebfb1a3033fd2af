-- The first ones of a part of time.
insert into jobwright_rate_log (key, at, n) values (:key, :now, :n)
