-- Jobs by their ids, in the order in which they were sent: each table has an index on ids. See list.sql.
select id, seq, state, kind, queue, priority, attempt, max_attempts, created_at, due_at, owner, claimed_at,
       errors -> -1 ->> 'error' as last_error
from {schema}.jobs
where ($2::text[] is null or state = any ($2))
  and {dead_filter}
  and seq > $11
order by seq
limit $12
