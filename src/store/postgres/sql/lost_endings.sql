-- Handlers of cancelled jobs whose node is dead or unknown: nobody is left to say that they have ended. And the groups that such nodes held, once
-- they own no job of them any more. Who keeps a row from being released may be its handler, whose commit is still under way: the next one of the group
-- must not begin before that is decided, and a row whose removal is not committed is still seen here.
with ended as (
    delete from {schema}.ending e
    where e.node is not null and not exists (select from {schema}.node n where n.id = e.node and n.dead_at is null)
    returning holder
),
leases as (
    delete from {schema}.slot s
    where s.node is not null and not exists (select from {schema}.node n where n.id = s.node and n.dead_at is null)
      -- By the gate of each of its groups: a join would read all that waits anywhere.
      and (select j.id
           from {schema}.slot g
           cross join lateral (select id from {schema}.job where gate = g.key and lock_owner = g.node limit 1) j
           where g.job_id = s.job_id and g.key like 'g:%'
           limit 1) is null
    returning job_id, key
),
-- What nodes ran that are not even remembered (after a restore) is counted no more. Else it goes with its node (forget_nodes.sql).
usages as (
    delete from {schema}.usage u where not exists (select from {schema}.node n where n.id = u.node) returning key
),
opened as (
    insert into {schema}.opening (key) select key from leases union all select key from usages
)
select holder from ended union all select job_id from leases
