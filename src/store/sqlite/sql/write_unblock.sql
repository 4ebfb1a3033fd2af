-- An earlier unblock of the key says the same.
insert into jobwright_unblock (key, unblock_at, n)
select :key, :at, :n
where :at = 0 or not exists (select 1 from jobwright_unblock where key = :key and unblock_at <= :at)
