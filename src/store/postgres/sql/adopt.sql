-- Jobs that run take their places under a new limit. There is no index on the owner, so this walks the table: rules change seldom.
with running as (
    update {schema}.job c
    set admitted = true
    where (c.lock_owner is not null or c.admitted)
      and exists (select from {schema}.rule r where r.scope = $1 and r.name = $2 and r.running is not null and {covers:c})
    returning c.id, c.queue, c.kind, c.terms
),
handed as (
    update {schema}.external_job c
    set admitted = true
    where exists (select from {schema}.rule r where r.scope = $1 and r.name = $2 and r.running is not null and {covers:c})
    returning c.id, c.queue, c.kind, c.terms
)
insert into {schema}.slot (job_id, key)
select id, $3 || {schema}.subject($1, queue, kind, terms)
from (select * from running union all select * from handed) started
on conflict do nothing
