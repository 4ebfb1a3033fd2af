-- Everything about a job while it is handed out under this token. It reads the one table that the job is in: an executor, which asks this about the
-- report of an external worker, has no rights on the view of all jobs.
-- :id::uuid, :version::int8
select id, seq, 'external' as state, kind, queue, -rank as priority, attempt, max_attempts, created_at, null::timestamptz as due_at,
       null::int8 as owner, null::timestamptz as claimed_at, errors -> -1 ->> 'error'::text as last_error,
       version, null::timestamptz as dead_at, null::text as reason, payload, body, content_type, headers, errors, options, null::text as blocked_on
from {schema}.external_job
where id = :id and version = :version
