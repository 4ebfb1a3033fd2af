-- Like count.sql, for an operation on at most $12 of them, oldest first.
select state, count(*)
from (
    select state
    from {schema}.jobs
    where ($2::text[] is null or state = any ($2))
      and {dead_filter}
      and state = any ($11)
    order by seq
    limit $12
) first
group by state
