-- Sets a rule, or removes one that sets nothing ($10). Unblocks the keys that it concerns: its own, or, for the rule for all ('*'), every
-- key of its scope.
with gone as (
    delete from {schema}.rule where $10::bool and scope = $1 and name = $2
),
put as (
    insert into {schema}.rule (scope, name, paused, running, rate, period, aging, depth, shares)
    select $1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb
    where not $10::bool
    on conflict (scope, name) do update
    set paused = excluded.paused, running = excluded.running, rate = excluded.rate, period = excluded.period,
        aging = excluded.aging, depth = excluded.depth, shares = excluded.shares, changed_at = clock_timestamp()
),
audited as (
    insert into {schema}.audit (who, action, what) select $13, 'rule', $14::jsonb where $13::text is not null
)
insert into {schema}.unblock (key, n)
select blocked_on, 100
from (
    select $11::text as blocked_on
    where $2 <> '*' and (select blocked_on from {schema}.job where blocked_on = $11 limit 1) is not null
    union all
    select distinct blocked_on from {schema}.job where $2 = '*' and blocked_on is not null and starts_with(blocked_on, $12)
) waiting
