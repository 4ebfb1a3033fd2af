-- Removes only what was really copied: the same job has the same seq.
delete from {table}
where {filter}
  and (exists (select 1 from jobwright_job job where job.seq = {table}.seq and job.id = {table}.id)
       or exists (select 1 from jobwright_blocked_job job where job.seq = {table}.seq and job.id = {table}.id))
