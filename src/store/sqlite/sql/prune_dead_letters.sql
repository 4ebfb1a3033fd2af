-- A batch at a time, oldest first. Triggers release what they held.
delete from jobwright_dead_letter_job
where rowid in (select rowid from jobwright_dead_letter_job where dead_at < :before order by dead_at limit :limit)
