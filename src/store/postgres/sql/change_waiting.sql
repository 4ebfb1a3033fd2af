-- Changes waiting jobs in place. $11: rank; $12: attempts.
with changed as (
    update {schema}.job
    set rank = coalesce($11, rank), max_attempts = coalesce($12, max_attempts)
    where lock_owner is null
      and ($2::text[] is null or {state} = any ($2))
      and {filter}
    returning {state} as state
)
select state, count(*), null::uuid[] as ids from changed group by state
