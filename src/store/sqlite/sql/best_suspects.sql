-- The best suspects of a queue that may start. claim_suspect follows for each in the same transaction.
select id
from jobwright_blocked_job as job
where blocked_on = 'alone' and share = '' and queue = :queue
  and (:kinds is null or kind in (select value from json_each(:kinds)))
  and {queue_open} and {may_start}
order by rank, seq
limit :limit
