-- Selects suspects that wait and that come under a new limit, as permit_running does with running jobs: those that were admitted hold what they
-- were given.
select id, queue, kind, options
from jobwright_blocked_job as job
where blocked_on = 'alone' and admitted
  and exists (select 1 from jobwright_rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers})
