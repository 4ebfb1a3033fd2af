-- Takes a batch of unblocks; the caller sums up the numbers of each key.
delete from jobwright_unblock
where rowid in (select rowid from jobwright_unblock where unblock_at <= :now order by unblock_at limit :limit)
returning key, n
