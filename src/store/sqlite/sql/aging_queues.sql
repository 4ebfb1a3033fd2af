-- The queues whose jobs age, with how many microseconds make one priority: those that have rows, each by the rule that holds for it.
select q.queue, r.aging
from (select distinct queue from jobwright_job where lock_owner is null
      union select distinct substr(gate, 3) from jobwright_blocked_job where gate >= 'q:' and gate < 'q;') q
join jobwright_rule r on r.scope = 'queue' and r.aging is not null
 and (r.name = q.queue or r.name = '*' and not exists (select 1 from jobwright_rule own where own.scope = 'queue' and own.name = q.queue))
