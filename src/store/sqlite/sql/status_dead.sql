-- From the index on queue and kind alone.
select queue, count(*) as jobs from jobwright_dead_letter_job group by queue
