-- As adopt_running, for those in the hands of external workers.
update jobwright_external_job as job set admitted = 1
where exists (select 1 from jobwright_rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers})
returning id, queue, kind, terms
