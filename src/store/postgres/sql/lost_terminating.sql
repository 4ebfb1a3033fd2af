-- Removes handlers of cancelled jobs whose node is dead or unknown, because nothing else can report their end. Also releases the groups
-- that such nodes held, once they own no job of them any more. If a lock keeps a row from being released, it may be its handler's, whose
-- commit is still in flight. The next job of the group must not begin before that is decided, and a row whose removal is not committed is
-- still seen here.
with ended as (
    delete from {schema}.terminating_handler e
    where e.node is not null and not exists (select from {schema}.node n where n.id = e.node and n.dead_at is null)
    returning holder
),
leases as (
    delete from {schema}.permit s
    where s.node is not null and not exists (select from {schema}.node n where n.id = s.node and n.dead_at is null)
      -- Looks up the key of each of the lease's groups: a join would read all blocked rows.
      and (select j.id
           from {schema}.permit g
           cross join lateral (select id from {schema}.job where blocked_on = g.key and lock_owner = g.node limit 1) j
           where g.job_id = s.job_id and g.key like 'g:%'
           limit 1) is null
    returning job_id, key
),
-- Counts of nodes that are not even known any more (after a restore) are dropped. Other counts go with their node (forget_nodes.sql).
usages as (
    delete from {schema}.usage u where not exists (select from {schema}.node n where n.id = u.node) returning key
),
unblocked as (
    insert into {schema}.unblock (key) select key from leases union all select key from usages
)
select holder from ended union all select job_id from leases
