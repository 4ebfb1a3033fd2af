-- Jobs that run take their places under a new limit. There is no index on the owner, so this walks the table: rules change seldom.
with running as (
    update {schema}.job c
    set admitted = true
    where (c.lock_owner is not null or c.admitted) and c.gate is null
      -- Not what claims have counted that count still. While a node has a row in `usage` no claim of another sort takes such a job, so it is all
      -- that the node claimed since that row was begun.
      and (c.admitted
           or not exists (select from {schema}.usage u
                          where u.node = c.lock_owner and u.key = $3 || {schema}.subject($1, c.queue, c.kind, c.terms)
                            and (c.version::int8 - u.first + 2147483648) % 2147483648 < 1073741824))
      and exists (select from {schema}.rule r where r.scope = $1 and r.name = $2 and r.running is not null and {covers:c})
    returning c.id, c.queue, c.kind, c.terms
),
handed as (
    update {schema}.external_job c
    set admitted = true
    where exists (select from {schema}.rule r where r.scope = $1 and r.name = $2 and r.running is not null and {covers:c})
    returning c.id, c.queue, c.kind, c.terms
),
leases as (
    -- Of the jobs that a node took of a group, one runs: its lease takes the place.
    select distinct s.job_id, c.queue, c.kind, c.terms, s.node, s.version
    from {schema}.slot s
    cross join lateral (select * from {schema}.job where gate = s.key and lock_owner = s.node offset 0) c
    where s.key like 'g:%' and s.node is not null
      and exists (select from {schema}.rule r where r.scope = $1 and r.name = $2 and r.running is not null and {covers:c})
)
insert into {schema}.slot (job_id, key, node, version)
select id, $3 || {schema}.subject($1, queue, kind, terms), node, version
from (select id, queue, kind, terms, null::int4 as node, null::int4 as version from running
      union all select id, queue, kind, terms, null, null from handed
      union all select * from leases) started
on conflict do nothing
