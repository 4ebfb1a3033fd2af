-- Counts the jobs that an operation on these states would affect (dry run).
select state, count(*)
from {schema}.jobs
where ($2::text[] is null or state = any ($2))
  and {dead_filter}
  and state = any ($11)
group by state
