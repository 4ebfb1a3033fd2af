-- The queues whose jobs age, with the microseconds per priority: queues that have rows, each with the rule that applies to it.
select q.queue, r.aging
from (select distinct queue from jobwright_job where lock_owner is null
      union select distinct substr(blocked_on, 3) from jobwright_blocked_job where blocked_on >= 'q:' and blocked_on < 'q;') q
join jobwright_rule r on r.scope = 'queue' and r.aging is not null
 and (r.name = q.queue or r.name = '*' and not exists (select 1 from jobwright_rule own where own.scope = 'queue' and own.name = q.queue))
