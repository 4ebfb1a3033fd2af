-- Records the first starts of an interval.
insert into jobwright_rate_log (key, at, n) values (:key, :now, :n)
