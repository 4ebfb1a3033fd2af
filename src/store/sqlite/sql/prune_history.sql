-- A batch at a time, oldest first.
delete from jobwright_history
where rowid in (select rowid from jobwright_history where ended_at < :before order by ended_at, seq limit :limit)
