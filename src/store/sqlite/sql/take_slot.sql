-- Once, whatever was before.
insert into jobwright_slot (job_id, key) values (:id, :key) on conflict do nothing
