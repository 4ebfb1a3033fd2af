-- Writes down what a round decided. Slots are taken only for rows that are still there: whatever else may remove one waits for this,
-- or was before it.
-- $1, $2: blocked jobs that are admitted, and waiting ones. $3, $4: a job and a key it takes. $5 to $8: a blocked job, its gate, its share,
-- the group it holds from now on. $9 to $11: a waiting job that a rule covers, its gate, its share. $12 to $14: a key, its
-- starts under a rate, and within which part of time they are counted together. $15 to $17: openings, with their moment (null = now).
with gone as (
    delete from {schema}.blocked_job where id = any ($1::uuid[]) returning *
),
moved as (
    insert into {schema}.job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                              payload, body, content_type, headers, errors, terms, admitted)
    select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
           payload, body, content_type, headers, errors, terms, true
    from gone
    on conflict (id) do nothing
    returning id, queue
),
marked as (
    -- Its delivery may have come and gone: it is not kept back for that any more.
    update {schema}.job set admitted = true, held_until = null where id = any ($2::uuid[]) and not admitted returning id, queue
),
turned as (
    update {schema}.blocked_job b
    set gate = w.gate, share = w.share, admitted = b.admitted or w.hold is not null
    from unnest($5::uuid[], $6::text[], $7::text[], $8::text[]) as w(id, gate, share, hold)
    where b.id = w.id
    returning b.id, w.hold
),
parked as (
    delete from {schema}.job where id = any ($9::uuid[]) and lock_owner is null and not admitted returning *
),
blocked as (
    insert into {schema}.blocked_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                                      payload, body, content_type, headers, errors, terms, gate, share)
    select p.seq, p.version, p.created_at, p.id, p.attempt, p.max_attempts, p.rank, p.kind, p.queue,
           p.payload, p.body, p.content_type, p.headers, p.errors, p.terms, w.gate, w.share
    from parked p
    join unnest($9::uuid[], $10::text[], $11::text[]) as w(id, gate, share) on w.id = p.id
    on conflict (id) do nothing
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
