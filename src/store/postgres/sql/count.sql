-- Counts the jobs that an operation on these states would affect (dry run).
-- {filter_parameters}, :action_states::text[]
select state, count(*)
from {schema}.jobs
where (:states::text[] is null or state = any (:states))
  and {dead_filter}
  and state = any (:action_states)
group by state
