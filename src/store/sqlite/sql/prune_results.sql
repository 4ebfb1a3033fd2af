-- As prune_history.sql.
delete from jobwright_result
where job_id in (select job_id from jobwright_result where expires_at <= :now order by expires_at limit :limit)
