-- Counts only: each row says what its job is blocked on.
select queue, count(*) as jobs from jobwright_blocked_job group by queue
