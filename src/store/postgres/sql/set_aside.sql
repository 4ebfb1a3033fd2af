-- The last resort for a row that can't be read and not even be moved: it goes to a queue of its own, where its old name is told, and claims
-- leave it alone. What it holds is not touched. A delivery of it is out of date. What was reserved for it is free, but for its group if that
-- is ordered: the next one would overtake it.
with aside as (
    update {schema}.job j
    set queue    = left('unreadable:' || j.queue, 100),
        admitted = j.admitted and j.terms is not null and j.terms ? 'ordered',
        version  = ((j.version::int8 + 1) & 2147483647)::int4
    where j.id = $1 and j.version = $2 and j.seq = $3 and j.lock_owner is null and j.queue not like 'unreadable:%'
    returning j.id, case when j.admitted then 'g:' || (j.terms ->> 'group') end as kept
),
freed as (
    delete from {schema}.slot where job_id = (select id from aside) and key is distinct from (select kept from aside) returning key
),
opened as (
    insert into {schema}.opening (key) select key from freed
)
select id from aside
