-- A key that was taken for a period in the future counts as taken now, and is held for the requested period. Checks the keys that are held
-- longest: they come first in the index.
select count(*) as n, coalesce(max(taken_at - :now), 0) as far
from (
    select taken_at from jobwright_unique_key where expires_at > :now + 1000000 order by expires_at desc limit :longest
)
where taken_at > :now + 1000000
