-- Newest first, through the index on the end, or on the job.
select job_id, seq, kind, queue, outcome, attempt, created_at, started_at, ended_at, node, tenant, error
from {schema}.history
where ($1::uuid is null or job_id = $1)
  and ($2::text is null or queue = $2)
  and ($3::text is null or kind = $3)
  and ($4::text[] is null or outcome = any ($4))
  and ($5::text is null or strpos(error, $5) > 0)
  and ($6::timestamptz is null or ended_at >= $6)
  and ($7::timestamptz is null or ended_at < $7)
  and ($8::timestamptz is null or (ended_at, seq) < ($8, $9))
order by ended_at desc, seq desc
limit $10
