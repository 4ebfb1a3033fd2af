-- Gives running jobs their permits under a new limit, and waiting ones that were admitted. There is no index on the owner, so this scans the
-- table: rules change rarely. A job that is blocked on a group does not hold its permits itself, but a suspect (suspects.sql) does.
-- :scope::text, :name::text, :prefix::text
with running as (
    update {schema}.job c
    set admitted = true
    where (c.lock_owner is not null or c.admitted) and (c.blocked_on is null or c.blocked_on = 'alone')
      -- Leaves out jobs that claims have counted and still count. While a node has a row in `usage`, no claim of another sort takes such a
      -- job, so these are all that the node claimed since that row was begun.
      and (c.admitted
           or not exists (select from {schema}.usage u
                          where u.node = c.lock_owner and u.key = :prefix || {schema}.subject(:scope, c.queue, c.kind, c.options)
                            and (c.version::int8 - u.first + 2147483648) % 2147483648 < 1073741824))
      and exists (select from {schema}.rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers:c})
    returning c.id, c.queue, c.kind, c.options
),
handed as (
    update {schema}.external_job c
    set admitted = true
    where exists (select from {schema}.rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers:c})
    returning c.id, c.queue, c.kind, c.options
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
      union all select * from leases) started
on conflict do nothing
