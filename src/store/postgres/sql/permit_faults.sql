-- Conditions that must never hold among committed rows: see Admission::permit_faults. One statement, so that it sees one snapshot.
select 'the permit ' || s.key || ' is held by ' || s.job_id::text || ', which is gone'
from {schema}.permit s
where not exists (select from {schema}.job j where j.id = s.job_id and (j.admitted or j.blocked_on is not null and j.options ? 'ordered'::text))
  and not exists (select from {schema}.external_job j where j.id = s.job_id and j.admitted)
  and not exists (select from {schema}.timer_job j where j.id = s.job_id and j.options ? 'ordered'::text)
  and not exists (select from {schema}.suspended_job j where j.id = s.job_id and j.options ? 'ordered'::text)
  and not exists (select from {schema}.dead_letter_job j where j.id = s.job_id and j.options ? 'ordered'::text)
  and not exists (select from {schema}.terminating_handler e where e.holder = s.job_id)
  and not exists (select from {schema}.node n where n.id = s.node)
union all
select 'the group ' || key || ' is held ' || count(*)::text || ' times' from {schema}.permit where key like 'g:%' group by key having count(*) > 1
union all
select 'the job ' || j.id::text || ' of group ' || (j.options ->> 'group'::text) || ' was admitted and does not hold it'
from (select id, options from {schema}.job where admitted
      union all select id, options from {schema}.external_job where admitted) j
where j.options ? 'group'::text
  and not exists (select from {schema}.permit s where s.job_id = j.id and s.key = 'g:' || (j.options ->> 'group'::text))
union all
select 'the job ' || j.id::text || ' of group ' || (j.options ->> 'group'::text) || ' is among the jobs that can start, and was not admitted'
from {schema}.job j
where j.options ? 'group'::text and not j.admitted and j.blocked_on is null
  -- It was parked, and no claim takes it.
  and j.queue not like 'unreadable:%'
union all
select 'the job ' || j.id::text || ' behind ' || j.blocked_on || ' runs, and its node ' || j.lock_owner::text || ' does not hold the group'
from {schema}.job j
where j.blocked_on <> 'alone' and j.lock_owner is not null
  and not exists (select from {schema}.permit s where s.key collate "C" = j.blocked_on and s.node = j.lock_owner)
union all
-- The holder of a permit unblocks its key when it ends, and a rate says when it allows more. Otherwise only a rule that lets nothing start
-- is a reason to be blocked. Whatever ends that unblocks the key.
select 'jobs wait at ' || b.blocked_on || ', which nobody holds and nobody will open'
from (select blocked_on, substr(blocked_on, 3) as name,
             case left(blocked_on, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
      from (select distinct blocked_on from {schema}.job where blocked_on <> 'alone' and lock_owner is null) g) b
where not exists (select from {schema}.permit s where s.key collate "C" = b.blocked_on)
  and not exists (select from {schema}.usage u where u.key = b.blocked_on and u.n > 0)
  and not exists (select from {schema}.unblock o where o.key = b.blocked_on)
  and not exists (select from {schema}.rule r
                  where r.scope = b.scope and (r.paused or r.running = 0)
                    and (r.name = b.name
                         or r.name = '*' and (r.paused or not exists (select from {schema}.rule own where own.scope = b.scope and own.name = b.name))))
