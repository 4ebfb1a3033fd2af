-- Changes waiting jobs in place. :to_rank: rank; :to_attempts: attempts.
-- {filter_parameters}, :to_rank::int2, :to_attempts::int4
with changed as (
    update {schema}.job
    set rank = coalesce(:to_rank, rank), max_attempts = coalesce(:to_attempts, max_attempts)
    where lock_owner is null
      and (:states::text[] is null or {state} = any (:states))
      and {filter}
    returning {state} as state
)
select state, count(*), null::uuid[] as ids from changed group by state
