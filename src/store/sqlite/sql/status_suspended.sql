-- Counts only: a suspended job waits for a person.
select queue, count(*) as jobs from jobwright_suspended_job group by queue
