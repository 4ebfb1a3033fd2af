-- Removes the progress of jobs that are gone: a trigger would cost all jobs, and few have any.
delete from jobwright_progress
where job_id in (
    select job_id from jobwright_progress
    where not exists (select 1 from jobwright_job where id = job_id)
      and not exists (select 1 from jobwright_blocked_job where id = job_id)
      and not exists (select 1 from jobwright_external_job where id = job_id)
      and not exists (select 1 from jobwright_timer_job where id = job_id)
      and not exists (select 1 from jobwright_suspended_job where id = job_id)
      and not exists (select 1 from jobwright_dead_letter_job where id = job_id)
    limit :limit
)
