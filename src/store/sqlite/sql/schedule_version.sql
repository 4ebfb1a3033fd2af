-- Whether it is still as it was seen. Its occurrence too: one that was put again after it had been deleted begins with the same versions.
select exists (select 1 from jobwright_schedule where name = :name and version = :seen and next_at = :due)
