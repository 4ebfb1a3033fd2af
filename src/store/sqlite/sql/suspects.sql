-- The best suspects that wait: jobs whose process died while they ran. They are blocked on the key 'alone', so that no ordinary claim reads
-- them, and the index on blocked jobs finds them in their order. A limit that was set since may need permits, which only
-- an admission pass gives, and only to ordinary jobs.
select id, queue, kind,
       not admitted and exists (select 1 from jobwright_rule r where (r.running is not null or r.rate is not null) and {covers}) as needs_permits
from jobwright_blocked_job as job
where blocked_on = 'alone' and share = ''
  and queue in (select value from json_each(:queues)) and kind in (select value from json_each(:kinds))
order by rank, seq
limit :limit
