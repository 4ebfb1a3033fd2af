-- The general flush with rows that are to be born owned (the hot path); see insert_any.sql for the rest. A statement of its own,
-- because only it needs a right on the node table: those who only send do not.
-- `me` holds the node: what is born owned is answered for. A dead one gets nothing, and its rows wait. Nor does one whose transaction looks
-- at an old snapshot: it could not see that the node died meanwhile.
-- From here on only COMMIT is to come. Should this process fall silent before it, the server ends the transaction, and with it the hold.
with me as materialized (
    select {schema}.hold_node($13) as id
    from (select set_config('idle_in_transaction_session_timeout', '15000', true)) bounded
    where current_setting('transaction_isolation') = 'read committed'
),
-- Materialized: whoever sends one of these ids at this moment is waited for once.
chosen as materialized (
    select {schema}.new_ids(array(select g.id from unnest($1::uuid[], $12::bool[]) as g(id, given) where g.given)) as id
),
fresh as (
    select m.*, coalesce(m.at, moment.now + m.delay_us * interval '1 microsecond') as due_at, moment.now as now,
           -- A time to live begins with the flush, by this server's clock.
           case when m.asked ? 'ttl'
                then m.asked || jsonb_build_object('expires', (extract(epoch from moment.now) * 1000000)::int8 + (m.asked ->> 'ttl')::int8)
                else m.asked
           end as terms
    from unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int4[], $6::text[], $7::bytea[], $8::text[], $9::jsonb[],
                $10::int8[], $11::timestamptz[], $12::bool[], $14::bool[], $15::int8[], $16::jsonb[])
             with ordinality as m(id, kind, queue, rank, max_attempts, payload, body, content_type, headers,
                                  delay_us, at, given, own, hold_us, asked, n)
         cross join (select clock_timestamp() as now) moment
    where not m.given or m.id in (select id from chosen)
    order by m.n
),
-- The sequence is asked here and not by the defaults of two tables: a delayed message keeps its place among the others.
msg as materialized (
    select fresh.*, nextval('{schema}.job_seq') as seq from fresh
),
ready as (
    insert into {schema}.job (seq, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, created_at,
                              lock_owner, version, attempt, claimed_at, held_until, terms, gate, share)
    select m.seq, m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers, m.now,
           me.id, case when me.id is not null then $17::int4 else 0 end, (me.id is not null)::int, case when me.id is not null then m.now end,
           -- Nobody delivers what has an owner.
           case when me.id is null and m.hold_us > 0 and (m.terms ? 'group') is not true then m.now + m.hold_us * interval '1 microsecond' end, m.terms,
           case when m.terms ? 'group' then 'g:' || (m.terms ->> 'group') end, case when m.terms ? 'group' then '' end
    from msg m left join me on m.own and (m.terms ? 'group') is not true
         -- What is paused or limited is nobody's before it was admitted.
         and not exists (select from {schema}.rule r where (r.paused or r.running is not null or r.rate is not null) and {covers:m})
    where m.due_at is null or m.due_at <= m.now
    order by m.n
    on conflict (id) do nothing
    returning id, seq, created_at, lock_owner is not null as owned, ctid, gate
),
-- A job of a group waits at its gate for admission. Nobody claims it from there, nor does anyone wait for another sender of the group.
opened as (
    insert into {schema}.opening (key) select distinct gate from ready where gate is not null
),
later as (
    insert into {schema}.timer_job (seq, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, created_at, due_at, terms)
    select m.seq, m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers, m.now, m.due_at, m.terms
    from msg m
    where m.due_at > m.now
    order by m.n
    on conflict (id) do nothing
    returning id, seq, created_at
)
select id, seq, created_at, owned, pg_current_xact_id()::text, ctid from ready
union all
select id, seq, created_at, false, pg_current_xact_id()::text, null from later
