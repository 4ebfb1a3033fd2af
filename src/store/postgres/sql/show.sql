-- Everything about one job, in whichever table it is.
-- :id::uuid
select id, seq, state, kind, queue, priority, attempt, max_attempts, created_at, due_at, owner, claimed_at,
       left(errors -> -1 ->> 'error'::text, 2000) as last_error,
       version, dead_at, reason, payload, body, content_type, headers, errors, options, blocked_on
from {schema}.jobs
where id = :id
