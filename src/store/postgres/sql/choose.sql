-- Which jobs an operator means, the first sent first. What is done to them is done by these ids, some thousands at a time; no more than $12 of them.
select id
from {schema}.jobs
where state = any ($11)
  and ($2::text[] is null or state = any ($2))
  and {dead_filter}
order by seq
limit $12
