-- A job that was sent again under its old id replaces what it returned before.
insert or replace into jobwright_result (job_id, kind, payload, created_at, expires_at)
values (:id, :kind, :payload, :now, :expires)
