-- Sets a rule, or removes one that sets nothing (:is_empty). Unblocks the keys that it concerns: its own, or, for the rule for all
-- ('*'), every key of its scope.
-- :scope::text, :name::text, :paused::bool, :running::int4, :rate::int4, :period_us::int8, :aging_us::int8, :depth::int8,
-- :shares::jsonb, :is_empty::bool, :blocked_on::text, :prefix::text, :who::text, :what::jsonb
with gone as (
    delete from {schema}.rule where :is_empty::bool and scope = :scope and name = :name
),
put as (
    insert into {schema}.rule (scope, name, paused, running, rate, period, aging, depth, shares)
    select :scope, :name, :paused, :running, :rate, :period_us, :aging_us, :depth, :shares::jsonb
    where not :is_empty::bool
    on conflict (scope, name) do update
    set paused = excluded.paused, running = excluded.running, rate = excluded.rate, period = excluded.period,
        aging = excluded.aging, depth = excluded.depth, shares = excluded.shares, changed_at = clock_timestamp()
),
audited as (
    insert into {schema}.audit (who, action, what) select :who, 'rule', :what::jsonb where :who::text is not null
)
insert into {schema}.unblock (key, n)
select blocked_on, 100
from (
    select :blocked_on::text as blocked_on
    where :name <> '*' and (select blocked_on from {schema}.job where blocked_on = :blocked_on limit 1) is not null
    union all
    select distinct blocked_on from {schema}.job where :name = '*' and blocked_on is not null and starts_with(blocked_on, :prefix)
) waiting
