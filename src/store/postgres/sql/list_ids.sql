-- Jobs by their ids, in the order in which they were sent: each table has an index on ids. See list.sql.
-- {filter_parameters}, :first::int8, :limit::int8
select id, seq, state, kind, queue, priority, attempt, max_attempts, created_at, due_at, owner, claimed_at,
       left(errors -> -1 ->> 'error'::text, 2000) as last_error
from {schema}.jobs
where (:states::text[] is null or state = any (:states))
  and {dead_filter}
  and seq >= :first
order by seq
limit :limit
