-- Adds to the starts of the same interval, which began at :since. All of them count until the last one is too old.
update jobwright_rate_log
set n = n + :n, at = :now
where rowid = (select rowid from jobwright_rate_log where key = :key and at >= :since order by at desc limit 1)
