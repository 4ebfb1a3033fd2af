-- One that comes earlier says the same.
insert into jobwright_opening (key, opens_at, n)
select :key, :at, :n
where :at = 0 or not exists (select 1 from jobwright_opening where key = :key and opens_at <= :at)
