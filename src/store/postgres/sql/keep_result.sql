-- Runs in the transaction that removes the job. If a job was sent again under its old id, its new result replaces the old one.
-- :id::uuid, :kind::text, :payload::jsonb, :retention_us::int8
insert into {schema}.result (job_id, kind, payload, expires_at)
values (:id, :kind, :payload, clock_timestamp() + :retention_us::float8 * interval '1 microsecond')
on conflict (job_id) do update
set kind = excluded.kind, payload = excluded.payload, created_at = excluded.created_at, expires_at = excluded.expires_at
