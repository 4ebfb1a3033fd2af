-- The one writer needs no SKIP LOCKED. The order of the rows returned is not defined: the caller sorts them.
update jobwright_job
set lock_owner = :node, claimed_at = :now, version = version + 1, attempt = attempt + 1
where exists (select 1 from jobwright_node where id = :node and dead_at is null)
  and seq in (
    select seq from jobwright_job
    where lock_owner is null and queue = :queue and (rank, seq) > (:rank, :seq)
      and (:kinds is null or kind in (select value from json_each(:kinds)))
    order by rank, seq
    limit :limit
)
returning id, seq, version, kind, queue, rank, attempt, max_attempts, created_at, payload, body, content_type, headers
