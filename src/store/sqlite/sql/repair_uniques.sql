-- Repairs the rows that skewed_uniques.sql finds.
update jobwright_unique_key
set expires_at = expires_at - (taken_at - :now), taken_at = :now
where taken_at > :now + 1000000
  and key in (select key from jobwright_unique_key where expires_at > :now + 1000000 order by expires_at desc limit :longest)
