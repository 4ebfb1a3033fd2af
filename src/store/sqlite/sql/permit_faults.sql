-- Conditions that must never hold: see Admission::permit_faults.
select 'the permit ' || s.key || ' is held by ' || hex(s.job_id) || ', which is gone'
from jobwright_permit s
where not exists (select 1 from jobwright_job j where j.id = s.job_id and j.admitted)
  and not exists (select 1 from jobwright_external_job j where j.id = s.job_id and j.admitted)
  and not exists (select 1 from jobwright_blocked_job j where j.id = s.job_id and (j.admitted or j.options ->> 'ordered' is not null))
  and not exists (select 1 from jobwright_timer_job j where j.id = s.job_id and j.options ->> 'ordered' is not null)
  and not exists (select 1 from jobwright_suspended_job j where j.id = s.job_id and j.options ->> 'ordered' is not null)
  and not exists (select 1 from jobwright_dead_letter_job j where j.id = s.job_id and j.options ->> 'ordered' is not null)
  and not exists (select 1 from jobwright_terminating_handler e where e.holder = s.job_id)
union all
select 'the group ' || key || ' is held ' || count(*) || ' times' from jobwright_permit where key like 'g:%' group by key having count(*) > 1
union all
select 'the job ' || hex(j.id) || ' of group ' || (j.options ->> 'group') || ' was admitted and does not hold it'
from (select id, options from jobwright_job where admitted
      union all select id, options from jobwright_external_job where admitted
      union all select id, options from jobwright_blocked_job where admitted) j
where j.options ->> 'group' is not null
  and not exists (select 1 from jobwright_permit s where s.job_id = j.id and s.key = 'g:' || (j.options ->> 'group'))
union all
select 'the job ' || hex(j.id) || ' of group ' || (j.options ->> 'group') || ' is among the jobs that can start, and was not admitted'
from jobwright_job j
where j.options ->> 'group' is not null and not j.admitted
union all
-- The holder of a permit unblocks its key when it ends, and a rate says when it allows more. Otherwise only a rule that lets nothing start
-- is a reason to be blocked. Whatever ends that unblocks the key.
select 'jobs wait at ' || b.blocked_on || ', which nobody holds and nobody will open'
from (select blocked_on, substr(blocked_on, 3) as name,
             case substr(blocked_on, 1, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
      from (select distinct blocked_on from jobwright_blocked_job where blocked_on <> 'alone') g) b
where not exists (select 1 from jobwright_permit s where s.key = b.blocked_on)
  and not exists (select 1 from jobwright_unblock o where o.key = b.blocked_on)
  and not exists (select 1 from jobwright_rule r
                  where r.scope = b.scope and (r.paused or r.running = 0)
                    and (r.name = b.name
                         or r.name = '*' and (r.paused or not exists (select 1 from jobwright_rule own where own.scope = b.scope and own.name = b.name))))
