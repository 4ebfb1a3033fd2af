-- What must never be, among what is committed: see Admission::slot_faults. One statement, so that it sees one moment.
select 'the slot ' || s.key || ' is held by ' || s.job_id || ', which is gone'
from {schema}.slot s
where not exists (select from {schema}.job j where j.id = s.job_id and (j.admitted or j.gate is not null and j.terms ? 'ordered'))
  and not exists (select from {schema}.external_job j where j.id = s.job_id and j.admitted)
  and not exists (select from {schema}.timer_job j where j.id = s.job_id and j.terms ? 'ordered')
  and not exists (select from {schema}.suspended_job j where j.id = s.job_id and j.terms ? 'ordered')
  and not exists (select from {schema}.dead_letter_job j where j.id = s.job_id and j.terms ? 'ordered')
  and not exists (select from {schema}.ending e where e.holder = s.job_id)
  and not exists (select from {schema}.node n where n.id = s.node)
union all
select 'the group ' || key || ' is held ' || count(*) || ' times' from {schema}.slot where key like 'g:%' group by key having count(*) > 1
union all
select 'the job ' || j.id || ' of group ' || (j.terms ->> 'group') || ' was admitted and does not hold it'
from (select id, terms from {schema}.job where admitted
      union all select id, terms from {schema}.external_job where admitted) j
where j.terms ? 'group'
  and not exists (select from {schema}.slot s where s.job_id = j.id and s.key = 'g:' || (j.terms ->> 'group'))
union all
select 'the job ' || j.id || ' of group ' || (j.terms ->> 'group') || ' is among the jobs that can start, and was not admitted'
from {schema}.job j
where j.terms ? 'group' and not j.admitted and j.gate is null
  -- It was set aside, and nobody claims it.
  and j.queue not like 'unreadable:%'
union all
select 'the job ' || j.id || ' behind ' || j.gate || ' runs, and its node ' || j.lock_owner || ' does not hold the group'
from {schema}.job j
where j.gate is not null and j.lock_owner is not null
  and not exists (select from {schema}.slot s where s.key collate "C" = j.gate and s.node = j.lock_owner)
union all
-- Whoever holds a place behind a gate opens it when it ends, and a rate says when it allows more. Else only a rule that lets nothing start
-- is a reason to wait; what ends it opens the gate.
select 'jobs wait at ' || b.gate || ', which nobody holds and nobody will open'
from (select gate, substr(gate, 3) as name,
             case left(gate, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
      from (select distinct gate from {schema}.job where gate is not null and lock_owner is null) g) b
where not exists (select from {schema}.slot s where s.key collate "C" = b.gate)
  and not exists (select from {schema}.usage u where u.key = b.gate and u.n > 0)
  and not exists (select from {schema}.opening o where o.key = b.gate)
  and not exists (select from {schema}.rule r
                  where r.scope = b.scope and (r.paused or r.running = 0)
                    and (r.name = b.name
                         or r.name = '*' and (r.paused or not exists (select from {schema}.rule own where own.scope = b.scope and own.name = b.name))))
