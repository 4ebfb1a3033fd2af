-- name: rules
-- All rules; there are few.
select scope, name, paused, running, rate, period, aging, depth, shares from {schema}.rule order by scope, name

-- name: put_rule
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

-- name: permit_running
-- Gives running jobs their permits under a new limit, and waiting ones that were admitted. There is no index on the owner, so this scans the
-- table: rules change rarely. A job that is blocked on a group does not hold its permits itself, but a suspect (`suspects`) does.
-- :scope::text, :name::text, :prefix::text
-- Rows that are marked already are only read: another transaction may have locked them for long, and admission waits for this one. For the same reason a
-- hand-out that is locked is not marked. Its worker is just ending it; if that is rolled back, its permit is taken back before it ends.
with running as (
    update {schema}.job c
    set admitted = true
    where c.lock_owner is not null and not c.admitted and (c.blocked_on is null or c.blocked_on = 'alone')
      -- Leaves out jobs that claims have counted and still count. While a node has a row in `usage`, no claim of another sort takes such a
      -- job, so these are all that the node claimed since that row was begun.
      and not exists (select from {schema}.usage u
                      where u.node = c.lock_owner and u.key = :prefix || {schema}.subject(:scope, c.queue, c.kind, c.options)
                        and (c.version::int8 - u.first + 2147483648) % 2147483648 < 1073741824)
      and exists (select from {schema}.rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers:c})
    returning c.id, c.queue, c.kind, c.options
),
handed as (
    update {schema}.external_job c
    set admitted = true
    where c.ctid = any (array(select e.ctid from {schema}.external_job e where not e.admitted for update skip locked))
      and exists (select from {schema}.rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers:c})
    returning c.id, c.queue, c.kind, c.options
),
marked as (
    select c.id, c.queue, c.kind, c.options
    from {schema}.job c
    where c.admitted and (c.blocked_on is null or c.blocked_on = 'alone')
      and exists (select from {schema}.rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers:c})
    union all
    select c.id, c.queue, c.kind, c.options
    from {schema}.external_job c
    where c.admitted
      and exists (select from {schema}.rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers:c})
),
leases as (
    -- Of the jobs of a group that a node has claimed, one runs at a time: its lease takes the permit.
    select distinct s.job_id, c.queue, c.kind, c.options, s.node, s.version
    from {schema}.permit s
    cross join lateral (select * from {schema}.job where blocked_on = s.key and lock_owner = s.node offset 0) c
    where s.key like 'g:%' and s.node is not null
      and exists (select from {schema}.rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers:c})
)
insert into {schema}.permit (job_id, key, node, version)
select id, :prefix || {schema}.subject(:scope, queue, kind, options), node, version
from (select id, queue, kind, options, null::int4 as node, null::int4 as version from running
      union all select id, queue, kind, options, null, null from handed
      union all select id, queue, kind, options, null, null from marked
      union all select * from leases) started
-- A permit that another transaction is just giving back is still seen here, and is not waited for.
where (select s.ctid from {schema}.permit s where s.job_id = started.id and s.key = :prefix || {schema}.subject(:scope, queue, kind, options) limit 1) is null
on conflict do nothing

-- name: drop_usage
-- Drops the counts of claims under limits that claims no longer count after a change of the rules. Jobs that run then hold permits
-- (`permit_running`, in the same transaction).
delete from {schema}.usage u
where {uncounted_usage}
returning u.key

-- name: live_nodes
-- Nodes that may have claims in flight from before the rule was set. Later claims see it.
select id from {schema}.node where dead_at is null
