-- Whether the job of the previous occurrence is still alive; a dead letter is not.
select exists (select 1 from jobwright_job where id = :id)
    or exists (select 1 from jobwright_timer_job where id = :id)
    or exists (select 1 from jobwright_suspended_job where id = :id)
    or exists (select 1 from jobwright_external_job where id = :id)
    or exists (select 1 from jobwright_blocked_job where id = :id)
