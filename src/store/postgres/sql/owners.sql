-- Which of these nodes own rows in a range of pages.
select distinct j.lock_owner::int8 from {schema}.job j where j.ctid >= $2 and j.ctid < $3 and j.lock_owner = any ($1::int8[])
