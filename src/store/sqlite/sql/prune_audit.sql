-- A batch at a time, oldest first.
delete from jobwright_audit
where id in (select id from jobwright_audit where at < :before order by at limit :limit)
