-- Counts alone: what each waits for, its own row says.
select queue, count(*) from jobwright_blocked_job group by queue
