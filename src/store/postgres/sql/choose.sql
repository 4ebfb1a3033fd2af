-- Selects the jobs that an operator means, oldest first, at most :limit. The action is applied by these ids, some thousands at a time.
-- {filter_parameters}, :action_states::text[], :limit::int8
select id
from {schema}.jobs
where state = any (:action_states)
  and (:states::text[] is null or state = any (:states))
  and {dead_filter}
order by seq
limit :limit
