-- The shares that are blocked on a key, found by stepping through the index, once per share.
with recursive step (share) as (
    select min(share) from jobwright_blocked_job where blocked_on = :blocked_on
    union all
    select (select min(share) from jobwright_blocked_job where blocked_on = :blocked_on and share > step.share) from step where step.share is not null
)
select share from step where share is not null
