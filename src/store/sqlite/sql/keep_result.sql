-- If a job was sent again under its old id, its new result replaces the old one.
insert or replace into jobwright_result (job_id, kind, payload, created_at, expires_at)
values (:id, :kind, :payload, :now, :expires)
