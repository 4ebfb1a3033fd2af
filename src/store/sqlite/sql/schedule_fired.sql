-- Moves a schedule on, in the transaction that sends its jobs.
update jobwright_schedule
set version = version + 1, next_at = :next_at, last_at = coalesce(:last_at, last_at), last_job = coalesce(:last_job, last_job),
    fired = fired + :sent
where name = :name and version = :seen
