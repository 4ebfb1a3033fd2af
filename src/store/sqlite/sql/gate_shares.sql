-- The shares that wait at a gate, by steps through the index, one for each.
with recursive step (share) as (
    select min(share) from jobwright_blocked_job where gate = :gate
    union all
    select (select min(share) from jobwright_blocked_job where gate = :gate and share > step.share) from step where step.share is not null
)
select share from step where share is not null
