-- Newest first.
select id, at, who, action, what, counts
from {schema}.audit
where ($1::int8 is null or id < $1)
  and ($2::text is null or who = $2)
  and ($3::text is null or action = $3)
order by id desc
limit $4
