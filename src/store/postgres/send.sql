-- name: send_by_sql
-- A job in a transaction of another driver, through the function that everybody sends with. Its only parameter is a text, which every driver can bind:
-- a JSON object (`send.rs`). A delay begins with the call.
-- :job::text
select {schema}.send(
           j.kind, j.payload::jsonb, queue => j.queue, priority => j.priority,
           due_at => coalesce(j.due_at, clock_timestamp() + j.delay, now()),
           exclusive_group => j."group", max_attempts => j.max_attempts, headers => j.headers, ttl => j.ttl,
           tenant => j.tenant, limit_key => j.limit_key, id => j.id, ordered => j.ordered, retry => j.retry,
           body => j.body, content_type => j.content_type,
           unique_digest => j.unique_digest, unique_hold => coalesce(j.unique_hold, 'done'::text), unique_period => j.unique_period,
           unique_conflict => coalesce(j.unique_conflict, 'keep'::text), max_payload => j.max_payload) as id
from jsonb_to_record(:job::text::jsonb)
         as j(kind text, payload text, queue text, priority int4, due_at timestamptz, delay interval, "group" text, max_attempts int4,
              headers jsonb, ttl interval, tenant text, limit_key text, id uuid, ordered bool, retry text, body bytea, content_type text,
              unique_digest bytea, unique_hold text, unique_period interval, unique_conflict text, max_payload int4)
