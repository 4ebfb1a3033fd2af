-- Permits whose holder is in no table, at most :limit. Triggers release a permit with its holder, but not where they were switched off, or a
-- table was restored alone.
select s.job_id, s.key
from jobwright_permit s
where not exists (select 1 from jobwright_job j where j.id = s.job_id and j.admitted)
  and not exists (select 1 from jobwright_external_job j where j.id = s.job_id and j.admitted)
  and not exists (select 1 from jobwright_blocked_job j where j.id = s.job_id and (j.admitted or j.options ->> 'ordered' is not null))
  and not exists (select 1 from jobwright_timer_job j where j.id = s.job_id and j.options ->> 'ordered' is not null)
  and not exists (select 1 from jobwright_suspended_job j where j.id = s.job_id and j.options ->> 'ordered' is not null)
  and not exists (select 1 from jobwright_dead_letter_job j where j.id = s.job_id and j.options ->> 'ordered' is not null)
  and not exists (select 1 from jobwright_terminating_handler e where e.holder = s.job_id)
limit :limit
