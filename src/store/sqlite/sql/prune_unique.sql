-- Keys whose period is over. Those of jobs go with them.
delete from jobwright_unique_key
where key in (select key from jobwright_unique_key where expires_at is not null and expires_at <= :now limit :limit)
