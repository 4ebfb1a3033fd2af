-- Runs in the transaction that removes the job. If a job was sent again under its old id, its new result replaces the old one.
insert into {schema}.result (job_id, kind, payload, expires_at)
values ($1, $2, $3, clock_timestamp() + $4 * interval '1 microsecond')
on conflict (job_id) do update
set kind = excluded.kind, payload = excluded.payload, created_at = excluded.created_at, expires_at = excluded.expires_at
