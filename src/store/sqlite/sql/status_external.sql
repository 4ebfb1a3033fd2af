-- Counts only: the leases show which ones are late.
select queue, count(*) as jobs from jobwright_external_job group by queue
