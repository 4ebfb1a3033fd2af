-- Whether the job of the occurrence before is not over; a dead letter is.
select exists (select 1 from jobwright_job where id = :id)
    or exists (select 1 from jobwright_timer_job where id = :id)
    or exists (select 1 from jobwright_suspended_job where id = :id)
    or exists (select 1 from jobwright_external_job where id = :id)
    or exists (select 1 from jobwright_blocked_job where id = :id)
