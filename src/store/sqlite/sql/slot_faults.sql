-- What must never be: see Admission::slot_faults.
select 'the slot ' || s.key || ' is held by ' || hex(s.job_id) || ', which is gone'
from jobwright_slot s
where not exists (select 1 from jobwright_job j where j.id = s.job_id and j.admitted)
  and not exists (select 1 from jobwright_external_job j where j.id = s.job_id and j.admitted)
  and not exists (select 1 from jobwright_blocked_job j where j.id = s.job_id and (j.admitted or j.terms ->> 'ordered' is not null))
  and not exists (select 1 from jobwright_timer_job j where j.id = s.job_id and j.terms ->> 'ordered' is not null)
  and not exists (select 1 from jobwright_suspended_job j where j.id = s.job_id and j.terms ->> 'ordered' is not null)
  and not exists (select 1 from jobwright_dead_letter_job j where j.id = s.job_id and j.terms ->> 'ordered' is not null)
union all
select 'the group ' || key || ' is held ' || count(*) || ' times' from jobwright_slot where key like 'g:%' group by key having count(*) > 1
union all
select 'the job ' || hex(j.id) || ' of group ' || (j.terms ->> 'group') || ' was admitted and does not hold it'
from (select id, terms from jobwright_job where admitted
      union all select id, terms from jobwright_external_job where admitted
      union all select id, terms from jobwright_blocked_job where admitted) j
where j.terms ->> 'group' is not null
  and not exists (select 1 from jobwright_slot s where s.job_id = j.id and s.key = 'g:' || (j.terms ->> 'group'))
union all
select 'the job ' || hex(j.id) || ' of group ' || (j.terms ->> 'group') || ' is among the jobs that can start, and was not admitted'
from jobwright_job j
where j.terms ->> 'group' is not null and not j.admitted
union all
select 'jobs wait at ' || b.gate || ', which nobody holds and nobody will open'
from (select distinct gate from jobwright_blocked_job where gate like 'g:%') b
where not exists (select 1 from jobwright_slot s where s.key = b.gate)
  and not exists (select 1 from jobwright_opening o where o.key = b.gate)
  and not exists (select 1 from jobwright_rule r where r.paused and r.scope = 'group' and (r.name = substr(b.gate, 3) or r.name = '*'))
