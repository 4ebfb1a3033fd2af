-- How many hold it; a look into the index.
select count(*) from jobwright_slot where key = :key
