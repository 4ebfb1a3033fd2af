-- Like show.sql, without the sender's data, which can't be read.
-- :id::uuid
select id, seq, state, kind, queue, priority, attempt, max_attempts, created_at, due_at, owner, claimed_at,
       left(errors -> -1 ->> 'error'::text, 2000) as last_error,
       version, dead_at, reason, null::jsonb as payload, null::bytea as body, null::text as content_type, null::jsonb as headers, errors,
       null::jsonb as options, blocked_on
from {schema}.jobs
where id = :id
