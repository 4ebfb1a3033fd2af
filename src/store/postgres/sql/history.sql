-- Newest first, through the index on the end, or on the job.
-- :id::uuid, :queue::text, :kind::text, :outcomes::text[], :error::text, :since::timestamptz, :until::timestamptz,
-- :behind::timestamptz, :behind_seq::int8, :limit::int8
select job_id, seq, kind, queue, outcome, attempt, created_at, started_at, ended_at, node, tenant, error
from {schema}.history
where (:id::uuid is null or job_id = :id)
  and (:queue::text is null or queue = :queue)
  and (:kind::text is null or kind = :kind)
  and (:outcomes::text[] is null or outcome = any (:outcomes))
  and (:error::text is null or strpos(error, :error) > 0)
  and (:since::timestamptz is null or ended_at >= :since)
  and (:until::timestamptz is null or ended_at < :until)
  and (:behind::timestamptz is null or (ended_at, seq) < (:behind, :behind_seq))
order by ended_at desc, seq desc
limit :limit
