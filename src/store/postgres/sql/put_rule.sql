-- Sets a rule, or removes one that asks for nothing ($10), and has whatever waits for it looked at again: behind its own gate, or, for
-- the rule of all ('*'), behind every gate of its scope.
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
insert into {schema}.opening (key, n)
select gate, 100
from (
    select $11::text as gate
    where $2 <> '*' and (select gate from {schema}.job where gate = $11 limit 1) is not null
    union all
    select distinct gate from {schema}.job where $2 = '*' and gate is not null and starts_with(gate, $12)
) waiting
