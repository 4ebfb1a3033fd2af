-- Whether it is still as it was seen.
select exists (select 1 from jobwright_schedule where name = :name and version = :seen)
