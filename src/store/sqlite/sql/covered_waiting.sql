-- The first waiting rows of a queue that a rule covers, among the first :ahead (claims walk over the same ones). A queue that is paused
-- stays as it is: no claim looks into it.
select id, seq, rank, kind, queue, terms, 0 as admitted, '' as gate, '' as share
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
