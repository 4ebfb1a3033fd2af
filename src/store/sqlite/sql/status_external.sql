-- Counts only: the leases show which ones are late.
select queue, count(*) from jobwright_external_job group by queue
