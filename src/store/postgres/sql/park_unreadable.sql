-- The last resort for a row that can't be read and not even moved: it goes to a separate queue, which is named after its old one and which
-- claims leave alone. Its content is not touched, and its numbers and its kind only if no row may have them any more. Earlier deliveries of it are invalid. Its permits are released, except for its group if
-- it is ordered: the next job would overtake it.
-- :id::uuid, :version::int8, :seq::int8
with aside as (
    update {schema}.job j
    set queue    = 'unreadable:' || case when octet_length(j.queue) <= 89 then j.queue else left(j.queue, 22) end,
        {fit_numbers:j},
        admitted = j.admitted and j.options is not null and j.options ? 'ordered'::text,
        version  = ((j.version::int8 + 1) & 2147483647::int8)::int4
    where j.id = :id and j.version = :version and j.seq = :seq and j.lock_owner is null and j.queue not like 'unreadable:%'
    returning j.id, case when j.admitted then 'g:' || (j.options ->> 'group'::text) end as kept
),
freed as (
    delete from {schema}.permit where job_id = (select id from aside) and key is distinct from (select kept from aside) returning key
),
unblocked as (
    insert into {schema}.unblock (key) select key from freed
)
select id from aside
