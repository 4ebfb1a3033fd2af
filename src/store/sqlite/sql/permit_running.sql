-- Marks running jobs as admitted under a new limit. The permits follow, from the same rows.
update jobwright_job as job set admitted = 1
where (lock_owner is not null or admitted)
  and exists (select 1 from jobwright_rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers})
returning id, queue, kind, options
