-- A batch of gates that opened; the caller adds up what was asked for behind each.
delete from jobwright_opening
where rowid in (select rowid from jobwright_opening where opens_at <= :now order by opens_at limit :limit)
returning key, n
