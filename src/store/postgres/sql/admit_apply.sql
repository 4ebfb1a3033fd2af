-- Writes down what a round decided. Slots are taken only for rows that are still there: whatever else may remove one waits for this,
-- or was before it. No joins: ids find the rows, and their place in the array what is said of them (settle.sql says why). `coalesce`: no index of what waits at gates is a way to them.
-- $1, $2: blocked jobs that are admitted, and waiting ones. $3, $4: a job and a key it takes. $5 to $8: a blocked job, its gate, its share,
-- the group it holds from now on. $9 to $11: a waiting job that a rule covers, its gate, its share. $12 to $14: a key, its
-- starts under a rate, and within which part of time they are counted together. $15 to $17: openings, with their moment (null = now).
with moved as (
    -- Whoever may change one of them waits for this, or was before it.
    update {schema}.job set admitted = true, gate = null, share = null
    where id = any ($1::uuid[]) and coalesce(gate, '') <> '' and lock_owner is null
    returning id, queue
),
marked as (
    -- Its delivery may have come and gone: it is not kept back for that any more.
    update {schema}.job set admitted = true, held_until = null where id = any ($2::uuid[]) and not admitted and coalesce(gate, '') = '' returning id, queue
),
turned as (
    update {schema}.job
    set gate = ($6::text[])[array_position($5::uuid[], id)], share = ($7::text[])[array_position($5::uuid[], id)],
        admitted = admitted or ($8::text[])[array_position($5::uuid[], id)] is not null
    where id = any ($5::uuid[]) and coalesce(gate, '') <> '' and lock_owner is null
    returning id, ($8::text[])[array_position($5::uuid[], id)] as hold
),
parked as (
    -- Its delivery may have come and gone, as above.
    update {schema}.job
    set gate = ($10::text[])[array_position($9::uuid[], id)], share = ($11::text[])[array_position($9::uuid[], id)], held_until = null
    where id = any ($9::uuid[]) and lock_owner is null and not admitted and coalesce(gate, '') = ''
),
taken as (
    insert into {schema}.slot (job_id, key)
    select s.id, s.key
    from unnest($3::uuid[], $4::text[]) as s(id, key)
    where s.id in (select id from moved union all select id from marked)
    union all
    select id, hold from turned where hold is not null
    on conflict do nothing
),
starts as materialized (
    -- One at a time admits, so nobody else counts. All of a part count until the last of them is over.
    select s.key, s.n, (
        select l.ctid
        from {schema}.rate_log l
        where l.key = s.key
          and l.at >= 'epoch'::timestamptz + (extract(epoch from statement_timestamp()) * 1000000)::int8 / s.part * s.part * interval '1 microsecond'
          -- Room for what is added.
          and l.n < 1000000000
        order by l.at desc
        limit 1
    ) as tid
    from unnest($12::text[], $13::int4[], $14::int8[]) as s(key, n, part)
),
added as (
    update {schema}.rate_log l set n = l.n + s.n, at = statement_timestamp() from starts s where l.ctid = s.tid
),
counted as (
    insert into {schema}.rate_log (key, at, n) select key, statement_timestamp(), n from starts where tid is null
),
opened as (
    insert into {schema}.opening (key, opens_at, n)
    select o.key, coalesce(o.at, clock_timestamp()), o.n
    from unnest($15::text[], $16::timestamptz[], $17::int4[]) as o(key, at, n)
    -- One that comes earlier says the same.
    where o.at is null or not exists (select from {schema}.opening e where e.key = o.key and e.opens_at <= o.at)
)
select count(*), array_agg(distinct queue)
from (select queue from moved union all select queue from marked) started
