-- How many jobs hold the key; one index lookup.
select count(*) from jobwright_permit where key = :key
