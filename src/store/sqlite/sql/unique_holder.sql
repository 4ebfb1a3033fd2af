-- The job that has a key, whether the key is still held, and whether that job waits. If the job no longer exists, only a period can still
-- hold the key.
select k.job_id,
       k.waits,
       case k.hold when 'period' then k.expires_at > :now
                   when 'waiting' then k.waits
                   else k.waits
                        or exists (select 1 from jobwright_job t where t.id = k.job_id)
                        or exists (select 1 from jobwright_external_job t where t.id = k.job_id)
                        or exists (select 1 from jobwright_dead_letter_job t where t.id = k.job_id)
       end as held
from (
    select *, exists (select 1 from jobwright_job t where t.id = job_id and t.lock_owner is null)
              or exists (select 1 from jobwright_blocked_job t where t.id = job_id)
              or exists (select 1 from jobwright_timer_job t where t.id = job_id)
              or exists (select 1 from jobwright_suspended_job t where t.id = job_id) as waits
    from jobwright_unique_key where key = unhex(:key)
) k
