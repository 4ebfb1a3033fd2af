-- For the test kit: lets time pass for timers and rates, by making all of it earlier. Only in a file of a test's own.
update jobwright_timer_job set due_at = due_at - :by;
update jobwright_opening set opens_at = opens_at - :by;
update jobwright_rate_log set at = at - :by
