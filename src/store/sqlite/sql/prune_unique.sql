-- Removes keys whose period is over. Other keys go with their jobs.
delete from jobwright_unique_key
where key in (select key from jobwright_unique_key where expires_at is not null and expires_at <= :now limit :limit)
