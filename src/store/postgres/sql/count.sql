-- What an operation on these states would touch (dry run).
select state, count(*)
from {schema}.jobs
where ($1::uuid[] is null or id = any ($1))
  and ($2::text[] is null or state = any ($2))
  and ($3::text is null or queue = $3)
  and ($4::text is null or kind = $4)
  and state = any ($5)
group by state
