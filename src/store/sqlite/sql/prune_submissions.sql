-- A batch at a time, oldest first.
delete from jobwright_submission
where id in (select id from jobwright_submission where received_at < :before order by received_at limit :limit)
