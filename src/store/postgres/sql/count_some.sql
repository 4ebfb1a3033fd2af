-- Like count.sql, for an operation on at most :limit of them, oldest first.
-- {filter_parameters}, :action_states::text[], :limit::int8
select state, count(*)
from (
    select state
    from {schema}.jobs
    where (:states::text[] is null or state = any (:states))
      and {dead_filter}
      and state = any (:action_states)
    order by seq
    limit :limit
) first
group by state
