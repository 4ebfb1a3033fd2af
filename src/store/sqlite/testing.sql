-- name: travel
-- For the test kit: lets time pass for timers and rates, by moving all of them earlier. Only for a test's own file.
update jobwright_job set due_at = due_at - :by where state = 'timer';
update jobwright_unblock set unblock_at = unblock_at - :by;
update jobwright_rate_log set at = at - :by
