-- Runs on a reader, so that polling an empty queue never waits for the writer.
select exists (select 1 from jobwright_job as job
               where lock_owner is null and queue = :queue and {queue_open})
