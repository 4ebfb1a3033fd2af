-- name: rehearse_release
-- Does to these rows what a release does, in a transaction that is rolled back: makes them wait, and makes dead letters of them. A row that
-- keeps the others from being released fails here, too.
-- :ids::uuid[]
with freed as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, errors = {kept_errors:j} || '{"error": "owner lost"}'::jsonb
    where j.ctid = any (array(
        select c.ctid from {schema}.job c where c.id = any (:ids::uuid[]) and c.lock_owner is not null for update skip locked
    ))
    returning j.*
)
insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
select {carried}, version, attempt, 'owner lost', errors, options
from freed
on conflict (id) do nothing

-- name: readable
-- Which of these rows are larger than a claim accepts (:max_bytes, in bytes), with a lower bound of their size. Converts the others to
-- the form that a claim would send, but sends nothing: a row that the server can't send fails here too. Numbers are checked first,
-- because numbers of a few kilobytes can take gigabytes when written out. Their digits are counted without writing any, and large
-- numbers are underestimated. As one array: jsonb_path_query moves all numbers that are left for each that it returns.
-- :ids::uuid[], :max_bytes::int8
select id, bytes
from (
    select j.id,
           case
               when octet_length(j.body) > :max_bytes then octet_length(j.body)::int8
               when numbers.digits > :max_bytes then numbers.digits
               else coalesce(octet_length(jsonb_send(j.payload))::int8, 0) + coalesce(octet_length(byteasend(j.body)), 0)
                   + coalesce(octet_length(jsonb_send(j.headers)), 0) + coalesce(octet_length(jsonb_send(j.options)), 0)
           end as bytes
    from {schema}.job j
    cross join lateral (
        select sum(scale(number::numeric)
                   + case
                         when abs(number::numeric) >= '1e100000'::numeric then 100000
                         when abs(number::numeric) >= '1e30000'::numeric then 30000
                         when abs(number::numeric) >= '1e10000'::numeric then 10000
                         when abs(number::numeric) >= '1e1000'::numeric then 1000
                         else 1
                     end) as digits
        from (values (j.payload), (j.headers), (j.options)) as document (content)
        cross join lateral jsonb_array_elements(
            jsonb_path_query_array(document.content, 'strict $.** ? (@.type() == "number")')
        ) as number
    ) as numbers
    where j.id = any (:ids::uuid[])
) as looked_at
where bytes > :max_bytes

-- name: rehearse_claim
-- Does to these rows what a claim does, in a transaction that is rolled back: a row that no claim can carry (a counter at its end, a value
-- that a constraint of the table refuses) fails here, too. Locked rows are just being claimed.
-- :ids::uuid[]
update {schema}.job j
set lock_owner = 1, version = 1, attempt = j.attempt + 1, claimed_at = clock_timestamp(), visible_at = null
where j.ctid = any (array(
    select c.ctid from {schema}.job c where c.id = any (:ids::uuid[]) and c.lock_owner is null for update skip locked
))

-- name: dead_letter_unreadable
-- Makes dead letters of rows that can't be read or carried on, each only in the state in which it was examined: waiting (:owner is 0), or
-- owned by a node that is gone. A job that was sent since with the same id has the same version, but a `seq` of its own. It may count as an
-- attempt (:cost), as any claim does.
-- :ids::uuid[], :versions::int8[], :reasons::text[], :node::int8, :seqs::int8[], :owner::int8, :cost::int4
with gone as (
    delete from {schema}.job j
    where {briefly}
      and j.id = any (:ids::uuid[])
      and coalesce(j.lock_owner, 0) = :owner
      and j.version = (:versions::int8[])[array_position(:ids::uuid[], j.id)]
      and j.seq = (:seqs::int8[])[array_position(:ids::uuid[], j.id)]
    returning j.*, (:reasons::text[])[array_position(:ids::uuid[], j.id)] as why, :cost as cost
),
{buried}
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, 'dead', attempts, created_at, :node::int8, fit ->> 'tenant'::text, why from buried
--{failed} )
select id from gone

-- name: park_unreadable
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
