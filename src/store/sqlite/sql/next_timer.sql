-- One index step: whether anything is due, and when to check again.
select min(due_at) from jobwright_timer_job
