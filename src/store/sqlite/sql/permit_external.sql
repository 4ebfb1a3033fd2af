-- As permit_running, for jobs at external workers.
update jobwright_external_job as job set admitted = 1
where exists (select 1 from jobwright_rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers})
returning id, queue, kind, options
