-- Takes the permit, if the job does not hold it yet.
insert into jobwright_permit (job_id, key) values (:id, :key) on conflict do nothing
