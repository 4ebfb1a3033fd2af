-- Selects the jobs that an operator means, oldest first, at most $12. The action is applied by these ids, some thousands at a time.
select id
from {schema}.jobs
where state = any ($11)
  and ($2::text[] is null or state = any ($2))
  and {dead_filter}
order by seq
limit $12
