-- Which of these nodes own rows in a range of pages.
-- :nodes::int8[], :from_location::tid, :to_location::tid
select distinct j.lock_owner::int8 from {schema}.job j where j.ctid >= :from_location and j.ctid < :to_location and j.lock_owner = any (:nodes::int8[])
