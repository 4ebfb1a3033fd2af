-- One step in the index: whether anything is due, and when to look again.
select min(due_at) from jobwright_timer_job
