-- Counts alone: whether they are late, their leases say.
select queue, count(*) from jobwright_external_job group by queue
