-- For the test kit: lets time pass for timers, by making all of them due earlier. Only in a schema of a test's own.
update {schema}.timer_job set due_at = due_at - $1 * interval '1 microsecond'
