-- Jobs of all states that match a filter, in the order they were sent.
select id, seq, state, kind, queue, priority, attempt, max_attempts, created_at, due_at, owner, claimed_at,
       errors -> -1 ->> 'error' as last_error
from {schema}.jobs
where ($1::uuid[] is null or id = any ($1))
  and ($2::text[] is null or state = any ($2))
  and ($3::text is null or queue = $3)
  and ($4::text is null or kind = $4)
  and seq > $5
order by seq
limit $6
