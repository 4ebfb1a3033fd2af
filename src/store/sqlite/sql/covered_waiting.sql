-- The first waiting rows of a queue that a rule covers, among the first :ahead (claims scan the same ones). A paused queue is left alone:
-- no claim scans it.
select id, seq, rank, kind, queue, options, 0 as admitted, '' as blocked_on, '' as share
from (
    select *
    from jobwright_job
    where lock_owner is null and queue = :queue and not admitted
      and (:kinds is null or kind in (select value from json_each(:kinds)))
      and {queue_open}
    order by rank, seq
    limit :ahead
) as job
where exists (select 1 from jobwright_rule r where (r.paused or r.running is not null or r.rate is not null) and {covers})
limit :limit
