--- insert_one [uuid text text int2 int4 jsonb bytea text jsonb]
/* jobwright insert_one */
insert into "THE_SCHEMA".job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers)
values ($1::uuid, $2::text, $3::text, $4::int2, $5::int4, $6::jsonb, $7::bytea, $8::text, $9::jsonb)
--- insert_one_named [uuid text text int2 int4 jsonb bytea text jsonb]
/* jobwright insert_one_named */
insert into "THE_SCHEMA".job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers)
values ($1::uuid, $2::text, $3::text, $4::int2, $5::int4, $6::jsonb, $7::bytea, $8::text, $9::jsonb)
returning pg_current_xact_id()::text as xid
--- insert_one_hidden [uuid text text int2 int4 jsonb bytea text jsonb int8]
/* jobwright insert_one_hidden */
insert into "THE_SCHEMA".job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers, visible_at)
values ($1::uuid, $2::text, $3::text, $4::int2, $5::int4, $6::jsonb, $7::bytea, $8::text, $9::jsonb, clock_timestamp() + $10::int8 * interval '1 microsecond')
--- insert_alike [_uuid _text text text int2 int4]
/* jobwright insert_alike */
with flushed as (
    insert into "THE_SCHEMA".job (id, kind, queue, rank, max_attempts, payload)
    select id, $3, $4, $5, $6, payload::jsonb
    from unnest($1::uuid[], $2::text[]) as m(id, payload)
)
select pg_current_xact_id()::text as xid
--- insert_ready [_uuid _text _text _int2 _int4 _text _bytea _text _jsonb]
/* jobwright insert_ready */
with flushed as (
    insert into "THE_SCHEMA".job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers)
    select m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers
    from unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int4[], $6::text[], $7::bytea[], $8::text[], $9::jsonb[])
             as m(id, kind, queue, rank, max_attempts, payload, body, content_type, headers)
)
select pg_current_xact_id()::text as xid
--- insert_hidden [_uuid _text _text _int2 _int4 _text _bytea _text _jsonb _int8]
/* jobwright insert_hidden */
with flushed as (
    insert into "THE_SCHEMA".job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers, visible_at)
    select m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers,
           case when m.hold_us > 0 then clock_timestamp() + m.hold_us * interval '1 microsecond' end
    from unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int4[], $6::text[], $7::bytea[], $8::text[], $9::jsonb[],
                $10::int8[])
             as m(id, kind, queue, rank, max_attempts, payload, body, content_type, headers, hold_us)
)
select pg_current_xact_id()::text as xid
--- insert_any [_uuid _text _text _int2 _int4 _text _bytea _text _jsonb _int8 _timestamptz _bool _int8 _jsonb]
/* jobwright insert_any */
with chosen as materialized (
    select "THE_SCHEMA".new_ids(array(select g.id from unnest($1::uuid[], $12::bool[]) as g(id, given) where g.given)) as id
),
fresh as (
    select m.*, coalesce(m.at, moment.now + m.delay_us * interval '1 microsecond') as due_at, moment.now as now,
           case when m.asked ? 'ttl'
                then m.asked || jsonb_build_object('expires', (extract(epoch from moment.now) * 1000000)::int8 + (m.asked ->> 'ttl')::int8)
                else m.asked
           end as options
    from unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int4[], $6::text[], $7::bytea[], $8::text[], $9::jsonb[], $10::int8[], $11::timestamptz[], $12::bool[], $13::int8[], $14::jsonb[])
             with ordinality as m(id, kind, queue, rank, max_attempts, payload, body, content_type, headers, delay_us, at, given, hold_us, asked, n)
         cross join (select clock_timestamp() as now) moment
    where not m.given or m.id in (select id from chosen)
    order by m.n
),
msg as materialized (
    select fresh.*, nextval('"THE_SCHEMA".job_seq') as seq from fresh
),
ready as (
    insert into "THE_SCHEMA".job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, visible_at, options, blocked_on, share)
    select m.seq, m.now, m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers,
           case when m.hold_us > 0 and (m.options ? 'group') is not true then m.now + m.hold_us * interval '1 microsecond' end, m.options,
           case when m.options ? 'group' then 'g:' || (m.options ->> 'group') end, case when m.options ? 'group' then '' end
    from msg m
    where m.due_at is null or m.due_at <= m.now
    order by m.n
    on conflict (id) do nothing
    returning id, seq, created_at, blocked_on
),
unblocked as (
    insert into "THE_SCHEMA".unblock (key) select distinct blocked_on from ready where blocked_on is not null
),
later as (
    insert into "THE_SCHEMA".timer_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, due_at, options)
    select m.seq, m.now, m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers, m.due_at, m.options
    from msg m
    where m.due_at > m.now
    order by m.n
    on conflict (id) do nothing
    returning id, seq, created_at
)
select id, seq, created_at, false as owned, pg_current_xact_id()::text as xid, null::tid as ctid from ready
union all
select id, seq, created_at, false, pg_current_xact_id()::text, null from later
--- insert_owned [_uuid _text _text _int2 _int4 _text _bytea _text _jsonb _int8 _timestamptz _bool int8 _bool _int8 _jsonb int4]
/* jobwright insert_owned */
with me as materialized (
    select "THE_SCHEMA".hold_node($13) as id
    from (select set_config('idle_in_transaction_session_timeout', '15000', true)) bounded
    where current_setting('transaction_isolation') = 'read committed'
),
chosen as materialized (
    select "THE_SCHEMA".new_ids(array(select g.id from unnest($1::uuid[], $12::bool[]) as g(id, given) where g.given)) as id
),
fresh as (
    select m.*, coalesce(m.at, moment.now + m.delay_us * interval '1 microsecond') as due_at, moment.now as now,
           case when m.asked ? 'ttl'
                then m.asked || jsonb_build_object('expires', (extract(epoch from moment.now) * 1000000)::int8 + (m.asked ->> 'ttl')::int8)
                else m.asked
           end as options
    from unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int4[], $6::text[], $7::bytea[], $8::text[], $9::jsonb[], $10::int8[], $11::timestamptz[], $12::bool[], $14::bool[], $15::int8[], $16::jsonb[])
             with ordinality as m(id, kind, queue, rank, max_attempts, payload, body, content_type, headers, delay_us, at, given, own, hold_us, asked, n)
         cross join (select clock_timestamp() as now) moment
    where not m.given or m.id in (select id from chosen)
    order by m.n
),
msg as materialized (
    select fresh.*, nextval('"THE_SCHEMA".job_seq') as seq from fresh
),
ready as (
    insert into "THE_SCHEMA".job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, lock_owner, version, attempt, claimed_at, visible_at, options, blocked_on, share)
    select m.seq, m.now, m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers, me.id, case when me.id is not null then $17::int4 else 0 end, (me.id is not null)::int, case when me.id is not null then m.now end,
           case when me.id is null and m.hold_us > 0 and (m.options ? 'group') is not true then m.now + m.hold_us * interval '1 microsecond' end, m.options,
           case when m.options ? 'group' then 'g:' || (m.options ->> 'group') end, case when m.options ? 'group' then '' end
    from msg m left join me on m.own and (m.options ? 'group') is not true
         and not exists (select from "THE_SCHEMA".rule r where (r.paused or r.running is not null or r.rate is not null) and (
    "THE_SCHEMA".subject(r.scope, m.queue, m.kind, m.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, m.queue, m.kind, m.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, m.queue, m.kind, m.options)))
))
    where m.due_at is null or m.due_at <= m.now
    order by m.n
    on conflict (id) do nothing
    returning id, seq, created_at, lock_owner is not null as owned, ctid, blocked_on
),
unblocked as (
    insert into "THE_SCHEMA".unblock (key) select distinct blocked_on from ready where blocked_on is not null
),
later as (
    insert into "THE_SCHEMA".timer_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, due_at, options)
    select m.seq, m.now, m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers, m.due_at, m.options
    from msg m
    where m.due_at > m.now
    order by m.n
    on conflict (id) do nothing
    returning id, seq, created_at
)
select id, seq, created_at, owned, pg_current_xact_id()::text as xid, ctid from ready
union all
select id, seq, created_at, false, pg_current_xact_id()::text, null from later
--- insert_options [_uuid _text _text _int2 _int4 _text _bytea _text _jsonb _text]
/* jobwright insert_options */
with flushed as (
    insert into "THE_SCHEMA".job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers, options)
    select m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers, m.options::jsonb
    from unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int4[], $6::text[], $7::bytea[], $8::text[], $9::jsonb[], $10::text[])
             as m(id, kind, queue, rank, max_attempts, payload, body, content_type, headers, options)
)
select pg_current_xact_id()::text as xid
--- insert_alike_options [_uuid _text _text text text int2 int4]
/* jobwright insert_alike_options */
with flushed as (
    insert into "THE_SCHEMA".job (id, kind, queue, rank, max_attempts, payload, options)
    select id, $4, $5, $6, $7, payload::jsonb, options::jsonb
    from unnest($1::uuid[], $2::text[], $3::text[]) as m(id, payload, options)
)
select pg_current_xact_id()::text as xid
--- known_ids [_uuid]
/* jobwright known_ids */
select m.id
from unnest($1::uuid[]) as m(id)
where (select t.id from "THE_SCHEMA".job t where t.id = m.id limit 1) is not null
   or (select t.id from "THE_SCHEMA".timer_job t where t.id = m.id limit 1) is not null
   or (select t.id from "THE_SCHEMA".suspended_job t where t.id = m.id limit 1) is not null
   or (select t.id from "THE_SCHEMA".dead_letter_job t where t.id = m.id limit 1) is not null
   or (select t.id from "THE_SCHEMA".external_job t where t.id = m.id limit 1) is not null
--- lock_ids [_uuid]
/* jobwright lock_ids */
select count(*) from "THE_SCHEMA".new_ids($1)
--- take_unique [_bytea _uuid _text _int8 _text]
/* jobwright take_unique */
select n, verdict, holder from "THE_SCHEMA".take_unique($1, $2, $3, $4, $5)
--- full_queues [_text _int8]
/* jobwright full_queues */
select q.name, q.depth
from unnest($1::text[], $2::int8[]) as q(name, depth)
where (select count(*) from (select from "THE_SCHEMA".job j where j.queue = q.name and j.lock_owner is null and j.blocked_on is null limit q.depth) w)
    + (select count(*) from (select from "THE_SCHEMA".job b where b.queue = q.name and b.lock_owner is null and b.blocked_on > '' limit q.depth) w) >= q.depth
--- history [uuid text text _text text timestamptz timestamptz timestamptz int8 int8]
/* jobwright history */
select job_id, seq, kind, queue, outcome, attempt, created_at, started_at, ended_at, node, tenant, error
from "THE_SCHEMA".history
where ($1::uuid is null or job_id = $1)
  and ($2::text is null or queue = $2)
  and ($3::text is null or kind = $3)
  and ($4::text[] is null or outcome = any ($4))
  and ($5::text is null or strpos(error, $5) > 0)
  and ($6::timestamptz is null or ended_at >= $6)
  and ($7::timestamptz is null or ended_at < $7)
  and ($8::timestamptz is null or (ended_at, seq) < ($8, $9))
order by ended_at desc, seq desc
limit $10
--- prune_history [int8 int8]
/* jobwright prune_history */
with gone as (
    delete from "THE_SCHEMA".history
    where ctid = any (array(
        select ctid
        from "THE_SCHEMA".history
        where ended_at < statement_timestamp() - $1 * interval '1 microsecond'
        order by ended_at, seq
        limit $2
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
--- prune_audit [int8 int8]
/* jobwright prune_audit */
with gone as (
    delete from "THE_SCHEMA".audit
    where id = any (array(
        select id
        from "THE_SCHEMA".audit
        where at < statement_timestamp() - $1 * interval '1 microsecond'
        order by at
        limit $2
    ))
    returning 1
)
select count(*) from gone
--- prune_dead_letters [int8 int8]
/* jobwright prune_dead_letters */
with gone as (
    delete from "THE_SCHEMA".dead_letter_job
    where ctid = any (array(
        select ctid
        from "THE_SCHEMA".dead_letter_job
        where dead_at < statement_timestamp() - $1 * interval '1 microsecond'
        order by dead_at
        limit $2
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
--- keep_result [uuid text jsonb int8]
/* jobwright keep_result */
insert into "THE_SCHEMA".result (job_id, kind, payload, expires_at)
values ($1, $2, $3, clock_timestamp() + $4 * interval '1 microsecond')
on conflict (job_id) do update
set kind = excluded.kind, payload = excluded.payload, created_at = excluded.created_at, expires_at = excluded.expires_at
--- result [uuid]
/* jobwright result */
select kind, payload, created_at, expires_at from "THE_SCHEMA".result where job_id = $1 and expires_at > clock_timestamp()
--- prune_results [int8]
/* jobwright prune_results */
with gone as (
    delete from "THE_SCHEMA".result
    where ctid = any (array(
        select ctid
        from "THE_SCHEMA".result
        where expires_at <= statement_timestamp()
        order by expires_at
        limit $1
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
--- record_progress [int8 uuid int8 int2 text jsonb]
/* jobwright record_progress */
insert into "THE_SCHEMA".progress (job_id, percent, note, checkpoint)
select id, $4, $5, $6
from "THE_SCHEMA".job
where id = $2 and version = $3 and lock_owner = $1
for share
on conflict (job_id) do update
set percent = coalesce(excluded.percent, progress.percent), note = coalesce(excluded.note, progress.note),
    checkpoint = coalesce(excluded.checkpoint, progress.checkpoint), at = excluded.at
returning job_id
--- progress [uuid]
/* jobwright progress */
select percent, note, checkpoint, at from "THE_SCHEMA".progress where job_id = $1
--- prune_progress [int8]
/* jobwright prune_progress */
with gone as (
    delete from "THE_SCHEMA".progress p
    where p.ctid = any (array(
        select o.ctid
        from "THE_SCHEMA".progress o
        where (select id from "THE_SCHEMA".job where id = o.job_id limit 1) is null
          and (select id from "THE_SCHEMA".external_job where id = o.job_id limit 1) is null
          and (select id from "THE_SCHEMA".timer_job where id = o.job_id limit 1) is null
          and (select id from "THE_SCHEMA".suspended_job where id = o.job_id limit 1) is null
          and (select id from "THE_SCHEMA".dead_letter_job where id = o.job_id limit 1) is null
        limit $1
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
--- find [uuid]
/* jobwright find */
select id from "THE_SCHEMA".job where id = $1
union all
select id from "THE_SCHEMA".timer_job where id = $1
union all
select id from "THE_SCHEMA".suspended_job where id = $1
union all
select id from "THE_SCHEMA".dead_letter_job where id = $1
union all
select id from "THE_SCHEMA".external_job where id = $1
--- claim [int8 text _int2 _int8 _int2 _text int8 bool text int8 int8 int8 _int8 int2 int4]
/* jobwright claim */
with me as materialized (
    select coalesce("THE_SCHEMA".hold_node($1), "THE_SCHEMA".refuse_node($1)) as id
),
shared_cursor as materialized (
    select place.start, setval($9::text::regclass, ($10::int8 << 48) | least(place.start + $12::int8, place.newest))
    from (
        select least(greatest($11::int8, case when held >> 48 = $10 then held & 281474976710655 end), newest) as start, newest
        from (
            select pg_sequence_last_value($9::text::regclass) as held, pg_sequence_last_value('"THE_SCHEMA".job_seq') as newest
            offset 0
        ) as registers
        offset 0
    ) as place
)
update "THE_SCHEMA".job j
set lock_owner = me.id,
    version    = $15,
    attempt    = j.attempt + 1,
    claimed_at = clock_timestamp(),
    visible_at = null
from me
where j.ctid = any (array(
    select found.ctid
    from unnest($3::int2[], $4::int8[], $5::int2[], $13::int8[]) as range (rank, after, last_rank, last_seq)
    cross join lateral (
        select c.ctid
        from "THE_SCHEMA".job c
        where c.queue = $2
          and (c.rank, c.seq) > (range.rank, coalesce(range.after, (select start from shared_cursor)))
          and (c.rank, c.seq) <= (range.last_rank, range.last_seq)
          and c.lock_owner is null
          and c.blocked_on is null
          and (select not exists (
    select from "THE_SCHEMA".rule r
    where r.scope = 'queue' and r.paused
      and r.name in ($2, '*')
))
          and (
    (c.options is null or (c.options ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
        or (c.options ? 'expires') is not true)
    and (
        (select not exists (select from "THE_SCHEMA".rule r where r.paused or r.running is not null or r.rate is not null))
        or not exists (
            select from "THE_SCHEMA".rule r
            where (r.paused or not c.admitted and (r.running is not null or r.rate is not null)) and (
    "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options)))
)
        )
    )
)
          and (c.visible_at is null or c.visible_at <= statement_timestamp() or $8::bool
               or c.visible_at > statement_timestamp() + interval '120 seconds')
          and ($6::text[] is null or c.kind = any ($6))
        order by c.rank, c.seq
        limit $7
        for update skip locked
    ) as found
    limit $7
))
returning j.id, j.seq, j.version::int8 as version, j.kind, j.queue, j.rank, j.attempt, j.max_attempts, j.created_at, j.payload, j.body, j.content_type, j.headers, j.options, j.admitted, j.ctid,
          case when j.rank = $14::int2 and j.seq > $11::int8 then (select start from shared_cursor) end as reserved_from
--- claim_counted [int8 text _int2 _int8 _int2 _int8 _text int8 int4 _int8 _text _text _text _int4 bool bool bool]
/* jobwright claim_counted */
with me as materialized (
    select coalesce("THE_SCHEMA".hold_node($1), "THE_SCHEMA".refuse_node($1)) as id
),
quota as materialized (
    select a.*
    from me cross join lateral "THE_SCHEMA".allowance(me.id, $9, $10::int8[], $11::text[], $12::text[], $13::text[], $14::int4[], $8) a
),
ahead as materialized (
    select array(
        select c.ctid
        from "THE_SCHEMA".job c
        where (select n from quota) is not null and $17::bool
          and c.queue = $2 and c.admitted and coalesce(c.blocked_on, '') = '' and c.lock_owner is null
          and (select not exists (
    select from "THE_SCHEMA".rule r
    where r.scope = 'queue' and r.paused
      and r.name in ($2, '*')
))
          and (
    (c.options is null or (c.options ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
        or (c.options ? 'expires') is not true)
    and (
        (select not exists (select from "THE_SCHEMA".rule r where r.paused or r.running is not null or r.rate is not null))
        or not exists (
            select from "THE_SCHEMA".rule r
            where (r.paused or not c.admitted and (r.running is not null or r.rate is not null)) and (
    "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options)))
)
        )
    )
)
          and c.kind = any ($7::text[])
        order by c.rank, c.seq
        limit $8
        for update skip locked
    ) as tids
),
room as materialized (
    select least(quota.n, $8 - cardinality(ahead.tids)) as n from quota cross join ahead
),
fresh as materialized (
    select array(
        select found.ctid
        from unnest($3::int2[], $4::int8[], $5::int2[], $6::int8[]) as range (rank, after, last_rank, last_seq)
        cross join lateral (
            select c.ctid
            from "THE_SCHEMA".job c
            where c.queue = $2
              and (c.rank, c.seq) > (range.rank, range.after)
              and (c.rank, c.seq) <= (range.last_rank, range.last_seq)
              and c.lock_owner is null
              and c.blocked_on is null
              and not c.admitted
              and (select not exists (
    select from "THE_SCHEMA".rule r
    where r.scope = 'queue' and r.paused
      and r.name in ($2, '*')
))
              and (
    (c.options is null or (c.options ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
        or (c.options ? 'expires') is not true)
    and (
        (select not exists (
            select from "THE_SCHEMA".rule r
            where (r.paused or r.running is not null or r.rate is not null)
              and not (not r.paused and (select simple from quota) and "THE_SCHEMA".is_simple(r.scope, r.name, r.shares) and (r.scope = 'queue' and $15::bool or r.scope = 'kind' and $16::bool))
              and (r.scope <> 'queue' or r.name in ($2, '*'))
              and (r.scope <> 'kind' or r.name = '*' or r.name = any ($7::text[]))
        ))
        or not exists (
            select from "THE_SCHEMA".rule r
            where (r.paused or r.running is not null or r.rate is not null)
              and not (not r.paused and (select simple from quota) and "THE_SCHEMA".is_simple(r.scope, r.name, r.shares) and (r.scope = 'queue' and $15::bool or r.scope = 'kind' and $16::bool))
              and (
    "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options)))
)
        )
    )
)
              and c.kind = any ($7::text[])
            order by c.rank, c.seq
            limit $8
            for update skip locked
        ) as found
        limit (select n from room)
    ) as tids
),
claimed as (
    update "THE_SCHEMA".job j
    set lock_owner = me.id,
        version    = $9::int4,
        attempt    = j.attempt + 1,
        claimed_at = clock_timestamp(),
        visible_at = null
    from me
    where j.ctid = any (array(select unnest(tids) from ahead union all select unnest(tids) from fresh))
    returning j.id, j.seq, j.version::int8 as version, j.kind, j.queue, j.rank, j.attempt, j.max_attempts, j.created_at, j.payload, j.body, j.content_type, j.headers, j.options, j.admitted, j.ctid
),
counts as materialized (
    select count(*) filter (where not admitted)::int4 as n, count(*) as taken from claimed
),
head as (
    select c.kind, c.options, c.queue
    from "THE_SCHEMA".job c
    where c.queue = $2 and c.blocked_on is null and c.lock_owner is null and not c.admitted
      and (c.rank, c.seq) > (($3::int2[])[1], ($4::int8[])[1])
    order by c.rank, c.seq
    limit 200
),
waiting as (
    select exists (select from head c where c.kind = any ($7::text[]) and (
    (c.options is null or (c.options ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
        or (c.options ? 'expires') is not true)
    and (
        (select not exists (
            select from "THE_SCHEMA".rule r
            where (r.paused or r.running is not null or r.rate is not null)
              and not (not r.paused and (select simple from quota) and "THE_SCHEMA".is_simple(r.scope, r.name, r.shares) and (r.scope = 'queue' and $15::bool or r.scope = 'kind' and $16::bool))
              and (r.scope <> 'queue' or r.name in ($2, '*'))
              and (r.scope <> 'kind' or r.name = '*' or r.name = any ($7::text[]))
        ))
        or not exists (
            select from "THE_SCHEMA".rule r
            where (r.paused or r.running is not null or r.rate is not null)
              and not (not r.paused and (select simple from quota) and "THE_SCHEMA".is_simple(r.scope, r.name, r.shares) and (r.scope = 'queue' and $15::bool or r.scope = 'kind' and $16::bool))
              and (
    "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options)))
)
        )
    )
)) as waits
),
used as (
    insert into "THE_SCHEMA".usage (key, node, n, demand, version, first, at)
    select k.key, me.id, k.runs + counts.n, case when counts.n < room.n then 0 when room.n > 0 or (select waits from waiting) then greatest($8 - counts.taken, 0) else 0 end,
           $9::int4, $9::int4, clock_timestamp()
    from me cross join counts cross join room cross join quota
    cross join lateral unnest(quota.limited, quota.runs) as k(key, runs)
    on conflict (key, node) do update
    set n = excluded.n, demand = excluded.demand, version = excluded.version, at = excluded.at
    where (usage.n, usage.demand) is distinct from (excluded.n, excluded.demand)
       or (select n from counts) > 0
       or $8 = 0
       or usage.at < clock_timestamp() - case when excluded.demand > 0 then interval '2 seconds' else interval '1 minute' end
),
logged as materialized (
    select "THE_SCHEMA".log_starts(quota.rated, quota.parts, counts.n) as n from counts cross join quota
)
select claimed.*, told.*
from (
    select room.n as allowed, quota.wait as wait_us, quota.unblocked, quota.anew as recount,
           room.n > 0 or (select waits from waiting) or (select count(*) from head) = 200 as waits,
           quota.passed as passed_over
    from quota cross join room cross join logged
) told
full join claimed on false
--- lock_limits [_int8]
/* jobwright lock_limits */
select "THE_SCHEMA".lock_limits($1)
--- drop_usage []
/* jobwright drop_usage */
delete from "THE_SCHEMA".usage u
where not exists (
    select from (
        select r.scope, r.name, r.shares, r.running
        from "THE_SCHEMA".rule r
        where r.scope = case left(u.key, 2) when 'q:' then 'queue' else 'kind' end and r.name in (substr(u.key, 3), '*')
        order by r.name = '*'
        limit 1
    ) r
    where r.running is not null and ("THE_SCHEMA".is_simple(r.scope, r.name, r.shares)
 and (select not exists (select from "THE_SCHEMA".rule o
                         where (o.running is not null or o.rate is not null) and not "THE_SCHEMA".is_simple(o.scope, o.name, o.shares))))
)
returning u.key
--- claim_delivered [int8 _uuid _int8 _text int4]
/* jobwright claim_delivered */
with me as materialized (
    select coalesce("THE_SCHEMA".hold_node($1), "THE_SCHEMA".refuse_node($1)) as id
)
update "THE_SCHEMA".job j
set lock_owner = me.id,
    version    = $5,
    attempt    = j.attempt + 1,
    claimed_at = clock_timestamp(),
    visible_at = null
from me
where j.ctid = any (array(
    select c.ctid
    from "THE_SCHEMA".job c
    where c.id = any ($2::uuid[])
      and c.lock_owner is null
      and coalesce(c.blocked_on, '') = ''
      and (
    (c.options is null or (c.options ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
        or (c.options ? 'expires') is not true)
    and (
        (select not exists (select from "THE_SCHEMA".rule r where r.paused or r.running is not null or r.rate is not null))
        or not exists (
            select from "THE_SCHEMA".rule r
            where (r.paused or not c.admitted and (r.running is not null or r.rate is not null)) and (
    "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options)))
)
        )
    )
)
      and ((c.id, c.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
      and ($4::text[] is null or c.kind = any ($4))
    for update skip locked
))
returning j.id, j.seq, j.version::int8 as version, j.kind, j.queue, j.rank, j.attempt, j.max_attempts, j.created_at, j.payload, j.body, j.content_type, j.headers, j.options, j.admitted, j.ctid
--- waiting [text _int2 _int8 _int2 _int8 _text bool int8]
/* jobwright waiting */
select found.id, found.version::int8, found.seq
from unnest($2::int2[], $3::int8[], $4::int2[], $5::int8[]) as range (rank, after, last_rank, last_seq)
cross join lateral (
    select c.id, c.version, c.seq
    from "THE_SCHEMA".job c
    where c.queue = $1
      and (c.rank, c.seq) > (range.rank, range.after)
      and (c.rank, c.seq) <= (range.last_rank, range.last_seq)
      and c.lock_owner is null
      and c.blocked_on is null
      and (select not exists (
    select from "THE_SCHEMA".rule r
    where r.scope = 'queue' and r.paused
      and r.name in ($1, '*')
))
      and (
    (c.options is null or (c.options ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
        or (c.options ? 'expires') is not true)
    and (
        (select not exists (select from "THE_SCHEMA".rule r where r.paused or r.running is not null or r.rate is not null))
        or not exists (
            select from "THE_SCHEMA".rule r
            where (r.paused or not c.admitted and (r.running is not null or r.rate is not null)) and (
    "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options)))
)
        )
    )
)
      and (c.visible_at is null or c.visible_at <= statement_timestamp() or $7::bool
           or c.visible_at > statement_timestamp() + interval '120 seconds')
      and ($6::text[] is null or c.kind = any ($6))
    order by c.rank, c.seq
    limit $8
) as found
limit $8
--- readable [_uuid int8]
/* jobwright readable */
select id, bytes
from (
    select j.id,
           case
               when octet_length(j.body) > $2 then octet_length(j.body)::int8
               when numbers.digits > $2 then numbers.digits
               else coalesce(octet_length(jsonb_send(j.payload))::int8, 0) + coalesce(octet_length(byteasend(j.body)), 0)
                   + coalesce(octet_length(jsonb_send(j.headers)), 0) + coalesce(octet_length(jsonb_send(j.options)), 0)
           end as bytes
    from "THE_SCHEMA".job j
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
        cross join lateral jsonb_path_query(document.content, 'strict $.** ? (@.type() == "number")') as number
    ) as numbers
    where j.id = any ($1::uuid[])
) as looked_at
where bytes > $2
--- delivered [_uuid _int8]
/* jobwright delivered */
select c.id, c.version::int8 as version, c.seq
from "THE_SCHEMA".job c
where c.id = any ($1::uuid[])
  and c.lock_owner is null
  and coalesce(c.blocked_on, '') = ''
  and ((c.id, c.version) in (select * from unnest($1::uuid[], $2::int8[]))) is true
--- dead_letter_unreadable [_uuid _int8 _text int8 _int8]
/* jobwright dead_letter_unreadable */
with gone as (
    delete from "THE_SCHEMA".job j
    where j.id = any ($1::uuid[])
      and j.lock_owner is null
      and j.version = ($2::int8[])[array_position($1::uuid[], j.id)]
      and j.seq = ($5::int8[])[array_position($1::uuid[], j.id)]
    returning j.*, ($3::text[])[array_position($1::uuid[], j.id)] as why
),
dead_lettered as (
    insert into "THE_SCHEMA".dead_letter_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, reason, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt + 1, why,
           case when jsonb_array_length(errors) >= 10 then errors - 0 else coalesce(errors, '[]') end
               || jsonb_build_object('attempt', attempt + 1, 'at', clock_timestamp(), 'node', $4::int8, 'error', why),
           options
    from gone
    on conflict (id) do nothing
)
 , remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, node, tenant, error)
     select id, seq, kind, queue, 'dead', attempt + 1, created_at, $4::int8, options ->> 'tenant', why from gone
 )
select id from gone
--- park_unreadable [uuid int8 int8]
/* jobwright park_unreadable */
with aside as (
    update "THE_SCHEMA".job j
    set queue    = left('unreadable:' || j.queue, 100),
        admitted = j.admitted and j.options is not null and j.options ? 'ordered',
        version  = ((j.version::int8 + 1) & 2147483647)::int4
    where j.id = $1 and j.version = $2 and j.seq = $3 and j.lock_owner is null and j.queue not like 'unreadable:%'
    returning j.id, case when j.admitted then 'g:' || (j.options ->> 'group') end as kept
),
freed as (
    delete from "THE_SCHEMA".permit where job_id = (select id from aside) and key is distinct from (select kept from aside) returning key
),
unblocked as (
    insert into "THE_SCHEMA".unblock (key) select key from freed
)
select id from aside
--- unhide [_uuid]
/* jobwright unhide */
with freed as (
    update "THE_SCHEMA".job
    set visible_at = null
    where ctid = any (array(
        select c.ctid
        from "THE_SCHEMA".job c
        where c.id = any ($1::uuid[]) and c.lock_owner is null and c.visible_at is not null
        for update skip locked
    ))
    returning queue
)
select distinct queue from freed
--- complete [int8 _uuid _int8]
/* jobwright complete */
 with done as (
delete from "THE_SCHEMA".job j
where j.id = any ($2::uuid[])
  and j.lock_owner = $1
  and ((j.id, j.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
returning j.id
 , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant' as tenant
 ),
 remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
 )
 select id from done
--- complete_at [int8 _uuid _int8 _tid]
/* jobwright complete_at */
 with done as (
delete from "THE_SCHEMA".job j
where j.ctid = any ($4::tid[])
  and j.lock_owner = $1
  and ((j.id, j.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
returning j.id
 , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant' as tenant
 ),
 remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
 )
 select id from done
--- complete_holding [int8 _uuid _int8 _tid]
/* jobwright complete_holding */
 with done as (
delete from "THE_SCHEMA".job j
where (select set_config('jobwright.ended', ($2::uuid[])::text, true)) is not null
  and j.ctid = any ($4::tid[])
  and j.lock_owner = $1
  and ((j.id, j.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
returning j.id
 , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant' as tenant
 ),
 remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
 )
 select id from done
--- complete_keyed [int8 _uuid _int8 _tid bool]
/* jobwright complete_keyed */
with done as (
    delete from "THE_SCHEMA".job j
    where (select set_config('jobwright.ended', case when $5 then ($2::uuid[])::text else '' end, true)) is not null
      and (select set_config('jobwright.released', 'true', true)) is not null
      and j.ctid = any ($4::tid[])
      and j.lock_owner = $1
      and ((j.id, j.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
    returning j.id, "THE_SCHEMA".key_of(j.options) as key
 , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant' as tenant
),
 remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
 ),
released as (
    delete from "THE_SCHEMA".unique_key
    where ctid = any (array(
        select k.tid
        from (select id, key from done where key is not null order by key) d
             cross join lateral (
                 select ctid as tid
                 from "THE_SCHEMA".unique_key
                 where key = d.key and job_id = d.id and hold <> 'period'
                   and not exists (select from "THE_SCHEMA".timer_job where id = d.id)
                   and not exists (select from "THE_SCHEMA".external_job where id = d.id)
                   and not exists (select from "THE_SCHEMA".dead_letter_job where id = d.id)
                   and not exists (select from "THE_SCHEMA".suspended_job where id = d.id)
                 for update skip locked
             ) k
    ))
)
select id from done
--- remove_and_lease [int8 uuid int8 text uuid int4]
/* jobwright remove_and_lease */
with done as (
    delete from "THE_SCHEMA".job
    where id = $2 and version = $3 and lock_owner = $1
    returning id
 , seq, kind, queue, attempt, created_at, claimed_at, options ->> 'tenant' as tenant
),
 remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
 ),
leased as (
    update "THE_SCHEMA".permit
    set job_id = $5, node = $1, version = $6
    where job_id = (select id from done) and key = $4 and node is null
      and (select "THE_SCHEMA".hold_node($1)) is not null
      and (select exists (select from "THE_SCHEMA".job where blocked_on = $4 and share = '' and lock_owner is null))
    returning key
)
select id, pg_current_xact_id()::text as xid, exists (select from leased) as leased from done
--- complete_and_claim_next [int8 _uuid _int8 _tid _text int4 _text _uuid _uuid _text _int4 _int2 _int8]
/* jobwright complete_and_claim_next */
with me as materialized (
    select "THE_SCHEMA".hold_node($1) as id
),
done as (
    delete from "THE_SCHEMA".job j
    where (select set_config('jobwright.ended', ($2::uuid[])::text, true)) is not null
      and j.ctid = any ($4::tid[])
      and j.lock_owner = $1
      and ((j.id, j.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
    returning j.id
 , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant' as tenant
),
 remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
 ),
turn as materialized (
    select t.key, t.lease, t.queue, t.rank, t.seq, s.place, s.node is not null as leased,
           case when (select id from me) is not null
                     and (select not exists (select from "THE_SCHEMA".rule r where r.paused or r.running is not null or r.rate is not null))
                then t.n else 0 end as n
    from unnest($7::text[], $8::uuid[], $9::uuid[], $10::text[], $11::int4[], $12::int2[], $13::int8[])
             as t(key, holder, lease, queue, n, rank, seq)
         cross join lateral (
             select ctid as place, node
             from "THE_SCHEMA".permit
             where job_id = t.holder and key = t.key
               and (node = $1 and t.holder = t.lease or node is null and t.holder in (select id from done))
             limit 1
             for update
         ) s
),
best as materialized (
    select t.key, b.*
    from turn t
         cross join lateral (
             select b.tid, row_number() over (order by b.rank, b.seq) as nth, b.fits, b.fresh
             from (
                 select j.ctid as tid, j.rank, j.seq,
                        j.queue = t.queue and j.kind = any ($5) and not j.admitted
                            and ((j.options ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
                                 or (j.options ? 'expires') is not true) as fits,
                        j.attempt = 0 and j.max_attempts > 1 as fresh
                 from "THE_SCHEMA".job j
                 where j.blocked_on = t.key and j.share = '' and (j.rank, j.seq) > (t.rank, t.seq) and j.lock_owner is null
                 order by j.rank, j.seq
                 limit t.n
             ) b
         ) b
),
locked as materialized (
    select ctid as tid
    from "THE_SCHEMA".job
    where ctid = any (array(select tid from best)) and lock_owner is null
    for update skip locked
),
next as materialized (
    select tid, key
    from (
        select tid, key, bool_and(fits and (nth = 1 or fresh and first_is_fresh) and tid in (select tid from locked))
                             over (partition by key order by nth) as follows
        from (select *, first_value(fresh) over (partition by key order by nth) as first_is_fresh from best) b
    ) b
    where follows
),
claimed as (
    update "THE_SCHEMA".job j
    set lock_owner = (select id from me), version = $6::int4, attempt = j.attempt + 1, claimed_at = clock_timestamp(), visible_at = null
    where j.ctid = any (array(select tid from next))
    returning j.id, j.seq, j.version::int8 as version, j.kind, j.queue, j.rank, j.attempt, j.max_attempts, j.created_at, j.payload, j.body, j.content_type, j.headers, j.options, j.admitted, j.ctid
),
leased as (
    update "THE_SCHEMA".permit
    set job_id = (select lease from turn where turn.place = permit.ctid), node = $1, version = $6::int4
    where ctid = any (array(select place from turn where not leased and key in (select key from next)))
),
freed as (
    delete from "THE_SCHEMA".permit
    where job_id = any (array(select lease from turn where leased and key not in (select key from next))) and node = $1
    returning key
),
unblocked as (
    insert into "THE_SCHEMA".unblock (key) select key from freed
)
select claimed.*, done.id as done
from claimed full join done on false
--- remove [int8 uuid int8]
/* jobwright remove */
 with done as (
delete from "THE_SCHEMA".job where id = $2 and version = $3 and lock_owner = $1 returning id, pg_current_xact_id()::text as xid
 , seq, kind, queue, attempt, created_at, claimed_at, options ->> 'tenant' as tenant
 ),
 remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
 )
 select id, xid from done
--- remove_all [int8 _uuid _int8]
/* jobwright remove_all */
 with done as (
delete from "THE_SCHEMA".job j
where j.id = any ($2::uuid[])
  and j.lock_owner = $1
  and ((j.id, j.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
returning j.id, pg_current_xact_id()::text as xid
 , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant' as tenant
 ),
 remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
 )
 select id, xid from done
--- settle [int8 _uuid _int8 _text _int8 _text _text]
/* jobwright settle */
with taken as (
    delete from "THE_SCHEMA".job j
    where j.id = any ($2::uuid[])
      and j.lock_owner = $1
      and j.version = ($3::int8[])[array_position($2::uuid[], j.id)]
    returning j.*, array_position($2::uuid[], j.id) as n
),
outcome as materialized (
    select t.*, ($4::text[])[t.n] as verdict, ($5::int8[])[t.n] as delay_us, ($6::text[])[t.n] as error,
           ($7::text[])[t.n] as detail
    from taken t
),
judged as materialized (
    select o.*,
           o.verdict = 'dead' or o.verdict = 'retry' and o.attempt >= o.max_attempts as dies,
           case when o.error is null then o.errors
                else case when jsonb_array_length(o.errors) >= 10 then o.errors - 0 else coalesce(o.errors, '[]') end
                    || jsonb_strip_nulls(jsonb_build_object('attempt', o.attempt, 'at', clock_timestamp(), 'node', $1,
                                                            'error', o.error, 'detail', o.detail))
           end as all_errors
    from outcome o
),
again as (
    insert into "THE_SCHEMA".timer_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, due_at, attempt, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, clock_timestamp() + delay_us * interval '1 microsecond',
           case verdict when 'snooze' then greatest(attempt - 1, 0) else attempt end, all_errors, options
    from judged
    where not dies and verdict in ('retry', 'snooze')
    on conflict (id) do nothing
),
dead_lettered as (
    insert into "THE_SCHEMA".dead_letter_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, reason, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, coalesce(error, 'attempts exhausted'), all_errors, options
    from judged
    where dies
    on conflict (id) do nothing
)
 , remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
     select id, seq, kind, queue, outcome, attempt, created_at, claimed_at, $1, options ->> 'tenant', error
     from (select j.*, case when dies then 'dead' else case verdict when 'retry' then 'failed' when 'cancel' then 'cancelled' end end as outcome
           from judged j) ended
     where outcome in ('done', 'failed', 'lost', 'dead', 'expired', 'cancelled', 'deleted')
 )
select id from taken
--- release [int8 _uuid _int8 _text _text]
/* jobwright release */
with back as (
    update "THE_SCHEMA".job j
    set lock_owner = null, claimed_at = null, attempt = greatest(j.attempt - 1, 0),
        errors = case when ($4::text[])[array_position($2::uuid[], j.id)] is null then j.errors
                      else case when jsonb_array_length(j.errors) >= 10 then j.errors - 0 else coalesce(j.errors, '[]') end
                          || jsonb_strip_nulls(jsonb_build_object('attempt', j.attempt, 'at', clock_timestamp(), 'node', $1,
                                                                  'error', ($4::text[])[array_position($2::uuid[], j.id)],
                                                                  'detail', ($5::text[])[array_position($2::uuid[], j.id)]))
                 end
    where j.id = any ($2::uuid[])
      and j.lock_owner = $1
      and j.version = ($3::int8[])[array_position($2::uuid[], j.id)]
    returning j.id, j.blocked_on
),
unblocked as (
    insert into "THE_SCHEMA".unblock (key) select distinct blocked_on from back where blocked_on is not null
)
select id from back
--- put_off [int8 uuid int8 int8]
/* jobwright put_off */
with back as (
    update "THE_SCHEMA".job
    set lock_owner = null, claimed_at = null, visible_at = clock_timestamp() + $4 * interval '1 microsecond'
    where id = $2 and version = $3 and lock_owner = $1
    returning blocked_on
)
insert into "THE_SCHEMA".unblock (key) select blocked_on from back where blocked_on is not null
--- promote [int8]
/* jobwright promote */
with due as (
    delete from "THE_SCHEMA".timer_job
    where ctid = any (array(
        select ctid
        from "THE_SCHEMA".timer_job
        where due_at <= statement_timestamp()
        order by due_at
        limit $1
        for update skip locked
    ))
    returning *
),
moved as (
    insert into "THE_SCHEMA".job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options
    from due
    on conflict (id) do nothing
    returning queue
)
select (select count(*) from due) as jobs,
       (select array_agg(distinct queue) from moved) as queues,
       case when (select count(*) from due) = $1 then 0
            else (select (extract(epoch from min(due_at) - statement_timestamp()) * 1000000)::int8
                  from "THE_SCHEMA".timer_job
                  where due_at > statement_timestamp())
       end as next_us,
       exists (select from due where options ? 'group') as blocked
--- expire_jobs [int8 text]
/* jobwright expire_jobs */
with pruned as (
    delete from "THE_SCHEMA".unique_key
    where ctid = any (array(
        select ctid from "THE_SCHEMA".unique_key where expires_at <= statement_timestamp() limit $1 for update skip locked
    ))
),
gone_waiting as (
    delete from "THE_SCHEMA".job
    where ctid = any (array(
        select ctid
        from "THE_SCHEMA".job
        where options ? 'expires' and lock_owner is null
          and (options ->> 'expires')::int8 <= (extract(epoch from statement_timestamp()) * 1000000)::int8
        order by (options ->> 'expires')::int8
        limit $1
        for update skip locked
    ))
    returning seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options
),
gone_timers as (
    delete from "THE_SCHEMA".timer_job
    where ctid = any (array(
        select ctid
        from "THE_SCHEMA".timer_job
        where options ? 'expires'
          and (options ->> 'expires')::int8 <= (extract(epoch from statement_timestamp()) * 1000000)::int8
        order by (options ->> 'expires')::int8
        limit $1
        for update skip locked
    ))
    returning seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options
),
gone as (
    select * from gone_waiting union all select * from gone_timers
),
dead_lettered as (
    insert into "THE_SCHEMA".dead_letter_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, reason, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, $2, errors, options
    from gone
    on conflict (id) do nothing
)
 , remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, tenant)
     select id, seq, kind, queue, 'expired', attempt, created_at, options ->> 'tenant' from gone
 )
select (select count(*) from gone) as jobs,
       case when $1 in ((select count(*) from gone_waiting), (select count(*) from gone_timers)) then 0
            else (select least(
                      (select min((options ->> 'expires')::int8) from "THE_SCHEMA".job
                       where options ? 'expires' and (options ->> 'expires')::int8 > (extract(epoch from statement_timestamp()) * 1000000)::int8),
                      (select min((options ->> 'expires')::int8) from "THE_SCHEMA".timer_job
                       where options ? 'expires' and (options ->> 'expires')::int8 > (extract(epoch from statement_timestamp()) * 1000000)::int8)
                  ) - (extract(epoch from statement_timestamp()) * 1000000)::int8)
       end as next_us
--- travel [int8]
/* jobwright travel */
with unblocks as (
    update "THE_SCHEMA".unblock set unblock_at = unblock_at - $1 * interval '1 microsecond'
),
rates as (
    update "THE_SCHEMA".rate_log set at = at - $1 * interval '1 microsecond'
)
update "THE_SCHEMA".timer_job set due_at = due_at - $1 * interval '1 microsecond'
--- register_node [text text int8 int8 int8]
/* jobwright register_node */
insert into "THE_SCHEMA".node (id, name, host, pid, lease, expires_at)
values ($5, $1, $2, $3, $4 * interval '1 microsecond', clock_timestamp() + $4 * interval '1 microsecond')
on conflict (id) do nothing
returning id
--- heartbeat [int8]
/* jobwright heartbeat */
update "THE_SCHEMA".node set heartbeats = heartbeats + 1, expires_at = clock_timestamp() + lease where id = $1 and dead_at is null returning id
--- node_heartbeats []
/* jobwright node_heartbeats */
select id, heartbeats, (extract(epoch from lease) * 1000000)::int8 as lease_us, dead_at is not null as dead from "THE_SCHEMA".node
--- declare_dead [_int8 _int8]
/* jobwright declare_dead */
with silent as materialized (
    select n.id
    from "THE_SCHEMA".node n
    join unnest($1::int8[], $2::int8[]) as seen (id, heartbeats) on n.id = seen.id and n.heartbeats = seen.heartbeats
    where n.dead_at is null
    for no key update of n skip locked
)
update "THE_SCHEMA".node n set dead_at = clock_timestamp() from silent where n.id = silent.id returning n.id
--- idle_nodes []
/* jobwright idle_nodes */
select id from "THE_SCHEMA".node where dead_at is not null and "THE_SCHEMA".node_is_idle(id)
--- idle_of [_int8]
/* jobwright idle_of */
select id from "THE_SCHEMA".node where id = any ($1::int8[]) and "THE_SCHEMA".node_is_idle(id)
--- wait_for_node [int8]
/* jobwright wait_for_node */
select pg_advisory_xact_lock("THE_SCHEMA".node_locks(), $1::int8::integer)
--- job_pages []
/* jobwright job_pages */
select case when current_setting('server_version_num')::integer >= 140000
            then pg_relation_size('"THE_SCHEMA".job'::regclass) / current_setting('block_size')::int8
            else 0
       end
--- owners [_int8 tid tid]
/* jobwright owners */
select distinct j.lock_owner::int8 from "THE_SCHEMA".job j where j.ctid >= $2 and j.ctid < $3 and j.lock_owner = any ($1::int8[])
--- release_lost [int8 int8 tid tid]
/* jobwright release_lost */
with lost as materialized (
    select j.ctid as tid
    from "THE_SCHEMA".job j
    where j.ctid >= $3 and j.ctid < $4
      and j.lock_owner is not null
      and not exists (select from "THE_SCHEMA".node n where n.id = j.lock_owner and n.dead_at is null)
    limit $1
    for update of j skip locked
),
noted as materialized (
    select j.ctid as tid, j.attempt >= j.max_attempts as spent,
           case when jsonb_array_length(j.errors) >= 10 then j.errors - 0 else coalesce(j.errors, '[]') end
               || jsonb_build_object('attempt', j.attempt, 'at', clock_timestamp(), 'node', j.lock_owner, 'error',
                      'owner lost: node ' || j.lock_owner || coalesce(' (' || n.name || ')', '')
                          || case when n.evicted then ' was declared dead by hand' else ' did not renew its lease' end) as all_errors
    from "THE_SCHEMA".job j
    left join "THE_SCHEMA".node n on n.id = j.lock_owner
    where j.ctid = any (array(select tid from lost))
),
judged as materialized (
    select tid, all_errors, spent or deaths >= $2 is true as dies,
           case when deaths >= $2 then 'quarantined: its process died ' || deaths || ' times while it ran' else 'owner lost' end as reason
    from noted
    cross join lateral (
        select count(*) as deaths
        from jsonb_array_elements(all_errors) with ordinality e (value, n)
        where e.value ->> 'error' like 'owner lost%'
          and not exists (select from jsonb_array_elements(all_errors) with ordinality a (value, n),
                                      jsonb_array_elements(all_errors) with ordinality b (value, n)
                          where a.n >= e.n and b.n = a.n + 1 and b.value -> 'attempt' < a.value -> 'attempt')
    ) counted
),
freed as (
    update "THE_SCHEMA".job j
    set lock_owner = null, claimed_at = null, errors = judged.all_errors
    from judged
    where j.ctid = judged.tid and not judged.dies
    returning j.queue, j.blocked_on
),
unblocked as (
    insert into "THE_SCHEMA".unblock (key) select distinct blocked_on from freed where blocked_on is not null
),
taken as (
    delete from "THE_SCHEMA".job j using judged where j.ctid = judged.tid and judged.dies
    returning j.*, judged.all_errors, judged.reason
),
dead_lettered as (
    insert into "THE_SCHEMA".dead_letter_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, reason, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, reason, all_errors, options
    from taken
    on conflict (id) do nothing
)
 , remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
     select j.id, j.seq, j.kind, j.queue, case when g.dies then 'dead' else 'lost' end, j.attempt, j.created_at, j.claimed_at,
            j.lock_owner, j.options ->> 'tenant', g.all_errors -> -1 ->> 'error'
     from "THE_SCHEMA".job j
     join judged g on j.ctid = g.tid
 )
select (select count(*) from freed) as waiting, (select count(*) from taken) as dead
--- release_unknown [int8 _uuid _int8 int4 tid tid]
/* jobwright release_unknown */
with back as (
    update "THE_SCHEMA".job j
    set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
    where j.ctid >= $5 and j.ctid < $6
      and lock_owner = $1
      and ((id, version) in (select * from unnest($2::uuid[], $3::int8[]))) is not true
      and ($4::int4 is null or (version::int8 - $4 + 2147483648) % 2147483648 >= 1073741824)
    returning id, blocked_on
),
unblocked as (
    insert into "THE_SCHEMA".unblock (key) select distinct blocked_on from back where blocked_on is not null
)
select id from back
--- release_claimed [int8 int4 _uuid]
/* jobwright release_claimed */
update "THE_SCHEMA".job set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
where id = any ($3::uuid[]) and lock_owner = $1 and version = $2
returning id
--- handlers_ended [int8 _uuid _int8]
/* jobwright handlers_ended */
delete from "THE_SCHEMA".terminating_handler
where job_id = any ($2::uuid[])
  and node is not distinct from $1
  and ((job_id, version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
returning holder
--- unknown_terminating [int8 _uuid _int8 int4]
/* jobwright unknown_terminating */
with ended as (
    delete from "THE_SCHEMA".terminating_handler
    where node = $1
      and ((job_id, version) in (select * from unnest($2::uuid[], $3::int8[]))) is not true
      and ($4::int4 is null or (version - $4 + 2147483648) % 2147483648 >= 1073741824)
    returning holder
),
leases as (
    delete from "THE_SCHEMA".permit
    where node = $1
      and (job_id = any ($2::uuid[])) is not true
      and ($4::int4 is null or (version::int8 - $4 + 2147483648) % 2147483648 >= 1073741824)
    returning job_id, key
),
unblocked as (
    insert into "THE_SCHEMA".unblock (key) select key from leases
)
select holder from ended union all select job_id from leases
--- claimed_terminating [int8 int4 _uuid]
/* jobwright claimed_terminating */
delete from "THE_SCHEMA".terminating_handler where job_id = any ($3::uuid[]) and node = $1 and version = $2
returning holder
--- lost_terminating []
/* jobwright lost_terminating */
with ended as (
    delete from "THE_SCHEMA".terminating_handler e
    where e.node is not null and not exists (select from "THE_SCHEMA".node n where n.id = e.node and n.dead_at is null)
    returning holder
),
leases as (
    delete from "THE_SCHEMA".permit s
    where s.node is not null and not exists (select from "THE_SCHEMA".node n where n.id = s.node and n.dead_at is null)
      and (select j.id
           from "THE_SCHEMA".permit g
           cross join lateral (select id from "THE_SCHEMA".job where blocked_on = g.key and lock_owner = g.node limit 1) j
           where g.job_id = s.job_id and g.key like 'g:%'
           limit 1) is null
    returning job_id, key
),
usages as (
    delete from "THE_SCHEMA".usage u where not exists (select from "THE_SCHEMA".node n where n.id = u.node) returning key
),
unblocked as (
    insert into "THE_SCHEMA".unblock (key) select key from leases union all select key from usages
)
select holder from ended union all select job_id from leases
--- forget_nodes [_int8]
/* jobwright forget_nodes */
with gone as (
    delete from "THE_SCHEMA".node where id = any ($1::int8[]) and dead_at is not null returning id
),
freed as (
    delete from "THE_SCHEMA".usage where node in (select id from gone) returning key
)
insert into "THE_SCHEMA".unblock (key) select distinct key from freed
--- retire_node [int8]
/* jobwright retire_node */
update "THE_SCHEMA".node n
set dead_at = coalesce(n.dead_at, moment.now), expires_at = least(n.expires_at, moment.now)
from (select clock_timestamp() as now) moment
where n.id = $1
--- server []
/* jobwright server */
select system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) as history, pg_postmaster_start_time() as started
from pg_control_system()
--- report_broker [int8 text]
/* jobwright report_broker */
update "THE_SCHEMA".node set broker = $2 where id = $1
--- takes_writes []
/* jobwright takes_writes */
with submission as (delete from "THE_SCHEMA".submission where false),
     job as (delete from "THE_SCHEMA".job where false),
     timer as (delete from "THE_SCHEMA".timer_job where false),
     unblock as (delete from "THE_SCHEMA".unblock where false),
     external as (delete from "THE_SCHEMA".external_job where false)
select
--- hand_out [text int8 int8 int8]
/* jobwright hand_out */
with best as materialized (
    delete from "THE_SCHEMA".job
    where ctid = any (array(
        select c.ctid
        from "THE_SCHEMA".job c
        where c.queue = $1 and c.lock_owner is null and c.blocked_on is null
          and (select not exists (
    select from "THE_SCHEMA".rule r
    where r.scope = 'queue' and r.paused
      and r.name in ($1, '*')
))
          and (
    (c.options is null or (c.options ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
        or (c.options ? 'expires') is not true)
    and (
        (select not exists (select from "THE_SCHEMA".rule r where r.paused or r.running is not null or r.rate is not null))
        or not exists (
            select from "THE_SCHEMA".rule r
            where (r.paused or not c.admitted and (r.running is not null or r.rate is not null)) and (
    "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options)))
)
        )
    )
)
        order by c.rank, c.seq
        limit $2
        for update skip locked
    ))
    returning *
)
insert into "THE_SCHEMA".external_job as j (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, lease_until, lease, attempt, errors, options, admitted)
select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, $4, clock_timestamp() + $3 * interval '1 microsecond', $3 * interval '1 microsecond',
       attempt + 1, errors, options, admitted
from best
on conflict (id) do nothing
returning j.id, j.seq, j.version::int8 as version, j.kind, j.queue, j.rank, j.attempt, j.max_attempts, j.created_at, j.payload, j.body, j.content_type, j.headers, j.options, j.admitted, null::tid as ctid
--- report_key []
/* jobwright report_key */
select key from "THE_SCHEMA".report_key
--- take_back [_uuid _int8]
/* jobwright take_back */
with back as (
    delete from "THE_SCHEMA".external_job e
    where e.id = any ($1::uuid[])
      and ((e.id, e.version) in (select * from unnest($1::uuid[], $2::int8[]))) is true
    returning e.*
)
insert into "THE_SCHEMA".job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options, admitted)
select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version & 2147483647, greatest(attempt - 1, 0), errors, options, admitted
from back
on conflict (id) do nothing
returning id
--- complete_external [_uuid _int8 _uuid _text _bytea _text text int4]
/* jobwright complete_external */
with done as materialized (
    delete from "THE_SCHEMA".external_job e
    where e.id = any ($1::uuid[])
      and e.version = ($2::int8[])[array_position($1::uuid[], e.id)]
    returning e.id, e.kind, e.headers, e.admitted, array_position($1::uuid[], e.id) as n
           , e.seq, e.queue, e.attempt, e.created_at, e.handed_at, e.options ->> 'tenant' as tenant
),
replies as (
    insert into "THE_SCHEMA".job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers)
    select ($3::uuid[])[n], kind, $7, 0, $8, ($4::text[])[n]::jsonb, ($5::bytea[])[n],
           ($6::text[])[n],
           jsonb_strip_nulls(jsonb_build_object('replyTo', headers ->> 'replyTo', 'correlationId', headers ->> 'correlationId',
                                                'jobId', id))
    from done
    where headers ? 'replyTo'
    order by n
)
 , remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'done', attempt, created_at, handed_at, 0, tenant from done
 )
select id, (headers ? 'replyTo') is true as replies, admitted from done
--- settle_external [_uuid _int8 _text _int8 _text _text]
/* jobwright settle_external */
with taken as (
    delete from "THE_SCHEMA".external_job e
    where e.id = any ($1::uuid[])
      and e.version = ($2::int8[])[array_position($1::uuid[], e.id)]
    returning e.*, array_position($1::uuid[], e.id) as n
),
outcome as materialized (
    select t.*, ($3::text[])[t.n] as verdict, ($4::int8[])[t.n] as delay_us, ($5::text[])[t.n] as error,
           ($6::text[])[t.n] as detail
    from taken t
),
judged as materialized (
    select o.*,
           o.verdict = 'dead' or o.verdict = 'retry' and o.attempt >= o.max_attempts as dies,
           case when o.error is null then o.errors
                else case when jsonb_array_length(o.errors) >= 10 then o.errors - 0 else coalesce(o.errors, '[]') end
                    || jsonb_strip_nulls(jsonb_build_object('attempt', o.attempt, 'at', clock_timestamp(), 'node', 0,
                                                            'error', o.error, 'detail', o.detail))
           end as all_errors
    from outcome o
),
released as (
    insert into "THE_SCHEMA".job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options, admitted)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version & 2147483647, greatest(attempt - 1, 0), all_errors, options, admitted
    from judged
    where verdict = 'release'
    on conflict (id) do nothing
),
again as (
    insert into "THE_SCHEMA".timer_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, due_at, attempt, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version & 2147483647, clock_timestamp() + delay_us * interval '1 microsecond',
           case verdict when 'snooze' then greatest(attempt - 1, 0) else attempt end, all_errors, options
    from judged
    where not dies and verdict in ('retry', 'snooze')
    on conflict (id) do nothing
),
dead_lettered as (
    insert into "THE_SCHEMA".dead_letter_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, reason, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version & 2147483647, attempt, coalesce(error, 'attempts exhausted'), all_errors, options
    from judged
    where dies
    on conflict (id) do nothing
)
 , remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
     select id, seq, kind, queue, outcome, attempt, created_at, handed_at, 0, options ->> 'tenant', error
     from (select j.*, case when dies then 'dead' else case verdict when 'retry' then 'failed' when 'cancel' then 'cancelled' end end as outcome
           from judged j) ended
     where outcome in ('done', 'failed', 'lost', 'dead', 'expired', 'cancelled', 'deleted')
 )
select id from taken
--- extend_external [_uuid _int8 _int8]
/* jobwright extend_external */
update "THE_SCHEMA".external_job e
set lease_until = clock_timestamp()
                      + coalesce(($3::int8[])[array_position($1::uuid[], e.id)] * interval '1 microsecond', e.lease)
where e.id = any ($1::uuid[])
  and e.version = ($2::int8[])[array_position($1::uuid[], e.id)]
returning e.id
--- external_late []
/* jobwright external_late */
select exists (select from "THE_SCHEMA".external_job where lease_until <= statement_timestamp())
    or exists (select from "THE_SCHEMA".terminating_handler where until <= statement_timestamp())
--- expire_external [int8 text text]
/* jobwright expire_external */
with late as (
    delete from "THE_SCHEMA".external_job
    where ctid = any (array(
        select ctid
        from "THE_SCHEMA".external_job
        where lease_until <= statement_timestamp()
        order by lease_until
        limit $1
        for update skip locked
    ))
    returning *
),
over as (
    delete from "THE_SCHEMA".terminating_handler
    where ctid = any (array(
        select ctid from "THE_SCHEMA".terminating_handler where until <= statement_timestamp() limit $1 for update skip locked
    ))
    returning holder
),
noted as materialized (
    select l.*, l.attempt >= l.max_attempts as dies,
           case when jsonb_array_length(l.errors) >= 10 then l.errors - 0 else coalesce(l.errors, '[]') end
               || jsonb_build_object('attempt', l.attempt, 'at', clock_timestamp(), 'node', 0, 'error', $2::text) as all_errors
    from late l
),
freed as (
    insert into "THE_SCHEMA".job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options, admitted)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version & 2147483647, attempt, all_errors, options, admitted
    from noted
    where not dies
    on conflict (id) do nothing
),
dead_lettered as (
    insert into "THE_SCHEMA".dead_letter_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, reason, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version & 2147483647, attempt, $3, all_errors, options
    from noted
    where dies
    on conflict (id) do nothing
)
 , remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
     select id, seq, kind, queue, case when dies then 'dead' else 'lost' end, attempt, created_at, handed_at, 0, options ->> 'tenant', $2
     from noted
 )
select count(*) filter (where not dies) as waiting, count(*) filter (where dies) as dead, (select count(*) from over) as ended from noted
--- receive [_uuid _text _text _int2 _int4 _text _bytea _text _jsonb _int8 _timestamptz _bool _int8 _bytea _jsonb]
/* jobwright receive */
with novel as (
    insert into "THE_SCHEMA".submission (id, digest)
    select s.id, s.digest
    from unnest($1::uuid[], $14::bytea[]) as s(id, digest)
    order by s.id
    on conflict (id) do nothing
    returning id
),
chosen as materialized (
    select "THE_SCHEMA".new_ids(array(select id from novel)) as id
),
fresh as (
    select m.*, coalesce(m.at, moment.now + m.delay_us * interval '1 microsecond') as due_at, moment.now as now,
           case when m.asked ? 'ttl'
                then m.asked || jsonb_build_object('expires', (extract(epoch from moment.now) * 1000000)::int8 + (m.asked ->> 'ttl')::int8)
                else m.asked
           end as options
    from unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int4[], $6::text[], $7::bytea[], $8::text[], $9::jsonb[], $10::int8[], $11::timestamptz[], $12::bool[], $13::int8[], $15::jsonb[])
             with ordinality as m(id, kind, queue, rank, max_attempts, payload, body, content_type, headers, delay_us, at, given, hold_us, asked, n)
         cross join (select clock_timestamp() as now) moment
    where m.id in (select id from chosen)
    order by m.n
),
msg as materialized (
    select fresh.*, nextval('"THE_SCHEMA".job_seq') as seq from fresh
),
ready as (
    insert into "THE_SCHEMA".job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, visible_at, options, blocked_on, share)
    select m.seq, m.now, m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers,
           case when m.hold_us > 0 and (m.options ? 'group') is not true then m.now + m.hold_us * interval '1 microsecond' end, m.options,
           case when m.options ? 'group' then 'g:' || (m.options ->> 'group') end, case when m.options ? 'group' then '' end
    from msg m
    where m.due_at is null or m.due_at <= m.now
    order by m.n
    on conflict (id) do nothing
    returning id, blocked_on
),
unblocked as (
    insert into "THE_SCHEMA".unblock (key) select distinct blocked_on from ready where blocked_on is not null
),
later as (
    insert into "THE_SCHEMA".timer_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, due_at, options)
    select m.seq, m.now, m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers, m.due_at, m.options
    from msg m
    where m.due_at > m.now
    order by m.n
    on conflict (id) do nothing
    returning id
)
select n.id, exists (select from ready r where r.id = n.id) or exists (select from later l where l.id = n.id) as stored
from novel n
--- submission_digests [_uuid]
/* jobwright submission_digests */
select id, digest from "THE_SCHEMA".submission where id = any ($1::uuid[])
--- remember_submissions [_uuid _bytea]
/* jobwright remember_submissions */
insert into "THE_SCHEMA".submission (id, digest)
select s.id, s.digest
from unnest($1::uuid[], $2::bytea[]) as s(id, digest)
order by s.id
on conflict (id) do nothing
returning id
--- prune_submissions [int8 int8]
/* jobwright prune_submissions */
with gone as (
    delete from "THE_SCHEMA".submission
    where ctid = any (array(
        select ctid
        from "THE_SCHEMA".submission
        where received_at < statement_timestamp() - $1 * interval '1 microsecond'
        order by received_at
        limit $2
        for update skip locked
    ))
    returning id
)
select count(*) from gone
--- maintenance_due [int8]
/* jobwright maintenance_due */
with moment as (
    select statement_timestamp() + $1 * interval '1 microsecond' as stop,
           (extract(epoch from statement_timestamp()) * 1000000)::int8 + $1 as stop_us
)
select exists (select from "THE_SCHEMA".timer_job where due_at <= (select stop from moment)) as timers,
       exists (select from "THE_SCHEMA".job
               where options ? 'expires' and lock_owner is null and (options ->> 'expires')::int8 <= (select stop_us from moment))
           or exists (select from "THE_SCHEMA".timer_job
                      where options ? 'expires' and (options ->> 'expires')::int8 <= (select stop_us from moment))
           or exists (select from "THE_SCHEMA".unique_key where expires_at <= statement_timestamp()) as expiry,
       exists (select from "THE_SCHEMA".unblock where unblock_at <= (select stop from moment))
           or exists (select from "THE_SCHEMA".rule
                      where paused or running is not null or rate is not null or aging is not null) as admission,
       exists (select from "THE_SCHEMA".schedule where not paused and next_at <= (select stop from moment)) as schedules,
       exists (select from "THE_SCHEMA".external_job where lease_until <= statement_timestamp())
           or exists (select from "THE_SCHEMA".terminating_handler where until <= statement_timestamp()) as external,
       clock_timestamp() as now
--- repair_unblocks []
/* jobwright repair_unblocks */
with ahead as materialized (
    select ctid as tid, extract(epoch from unblock_at - statement_timestamp()) * 1000000 as by
    from "THE_SCHEMA".unblock
    where unblock_at > statement_timestamp() + interval '1 second'
                     + coalesce((select max(period) from "THE_SCHEMA".rule), 0) * interval '1 microsecond'
    for update skip locked
),
repaired as (
    update "THE_SCHEMA".unblock o set unblock_at = statement_timestamp() from ahead where o.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead
--- repair_rates []
/* jobwright repair_rates */
with ahead as materialized (
    select ctid as tid, extract(epoch from at - statement_timestamp()) * 1000000 as by
    from "THE_SCHEMA".rate_log
    where at > statement_timestamp() + interval '1 second'
    for update skip locked
),
repaired as (
    update "THE_SCHEMA".rate_log l set at = statement_timestamp() from ahead where l.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead
--- repair_leases [int8]
/* jobwright repair_leases */
with ahead as materialized (
    select ctid as tid, greatest(handed_at - statement_timestamp(), interval '0') as early,
           extract(epoch from lease_until - statement_timestamp() - lease) * 1000000 as by
    from "THE_SCHEMA".external_job
    where handed_at > statement_timestamp() + interval '1 second'
       or lease_until > statement_timestamp() + interval '1 second' + greatest(lease, $1 * interval '1 microsecond')
    for update skip locked
),
repaired as (
    update "THE_SCHEMA".external_job e
    set handed_at = e.handed_at - ahead.early,
        lease_until = least(e.lease_until - ahead.early,
                            statement_timestamp() + greatest(e.lease, $1 * interval '1 microsecond'))
    from ahead
    where e.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead
--- repair_lives [int8]
/* jobwright repair_lives */
with ahead as materialized (
    select j.ctid as tid,
           (j.options ->> 'expires')::int8 - (j.options ->> 'ttl')::int8 - (extract(epoch from statement_timestamp()) * 1000000)::int8 as by
    from "THE_SCHEMA".job j
    where j.ctid = any (array(
        select c.ctid
        from "THE_SCHEMA".job c
        where c.options ? 'expires' and c.lock_owner is null
        order by (c.options ->> 'expires')::int8 desc
        limit $1
    ))
      and (j.options ->> 'expires')::int8 - (j.options ->> 'ttl')::int8 > (extract(epoch from statement_timestamp()) * 1000000)::int8 + 1000000
    for update skip locked
),
repaired as (
    update "THE_SCHEMA".job j
    set options = jsonb_set(j.options, '{expires}', to_jsonb((j.options ->> 'expires')::int8 - ahead.by))
    from ahead
    where j.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead
--- repair_timer_lives [int8]
/* jobwright repair_timer_lives */
with ahead as materialized (
    select j.ctid as tid,
           (j.options ->> 'expires')::int8 - (j.options ->> 'ttl')::int8 - (extract(epoch from statement_timestamp()) * 1000000)::int8 as by
    from "THE_SCHEMA".timer_job j
    where j.ctid = any (array(
        select c.ctid
        from "THE_SCHEMA".timer_job c
        where c.options ? 'expires'
        order by (c.options ->> 'expires')::int8 desc
        limit $1
    ))
      and (j.options ->> 'expires')::int8 - (j.options ->> 'ttl')::int8 > (extract(epoch from statement_timestamp()) * 1000000)::int8 + 1000000
    for update skip locked
),
repaired as (
    update "THE_SCHEMA".timer_job j
    set options = jsonb_set(j.options, '{expires}', to_jsonb((j.options ->> 'expires')::int8 - ahead.by))
    from ahead
    where j.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead
--- repair_retries [int8]
/* jobwright repair_retries */
with ahead as materialized (
    select t.ctid as tid, (t.errors -> -1 ->> 'at')::timestamptz - statement_timestamp() as early
    from "THE_SCHEMA".timer_job t
    where t.ctid = any (array(select c.ctid from "THE_SCHEMA".timer_job c order by c.due_at desc limit $1))
      and (t.errors -> -1 ->> 'at')::timestamptz > statement_timestamp() + interval '1 second'
      and t.due_at > (t.errors -> -1 ->> 'at')::timestamptz
    for update skip locked
),
repaired as (
    update "THE_SCHEMA".timer_job t set due_at = t.due_at - ahead.early from ahead where t.ctid = ahead.tid
)
select count(*) as n, coalesce(max(extract(epoch from early) * 1000000), 0)::int8 as far_us from ahead
--- repair_uniques [int8]
/* jobwright repair_uniques */
with last as materialized (
    select ctid as tid, taken_at, expires_at
    from "THE_SCHEMA".unique_key
    where expires_at > statement_timestamp() + interval '1 second'
    order by expires_at desc
    limit $1
),
ahead as materialized (
    select k.ctid as tid, k.taken_at - statement_timestamp() as by
    from "THE_SCHEMA".unique_key k
    join last on k.ctid = last.tid
    where k.taken_at > statement_timestamp() + interval '1 second'
    for update of k skip locked
),
repaired as (
    update "THE_SCHEMA".unique_key k
    set taken_at = k.taken_at - ahead.by, expires_at = k.expires_at - ahead.by
    from ahead
    where k.ctid = ahead.tid
)
select count(*) as n, coalesce(max(extract(epoch from by) * 1000000), 0)::int8 as far_us from ahead
--- clock_skew [int8]
/* jobwright clock_skew */
select what, n, (extract(epoch from far) * 1000000)::int8 as far_us
from (
    select 'node.started_at' as what, count(*) as n, max(started_at) - statement_timestamp() as far from "THE_SCHEMA".node where started_at > statement_timestamp() + interval '1 second'
    union all
    select 'node.dead_at' as what, count(*) as n, max(dead_at) - statement_timestamp() as far from "THE_SCHEMA".node where dead_at > statement_timestamp() + interval '1 second'
    union all
    select 'job.created_at' as what, count(*) as n, max(created_at) - statement_timestamp() as far from "THE_SCHEMA".job where created_at > statement_timestamp() + interval '1 second'
    union all
    select 'job.claimed_at' as what, count(*) as n, max(claimed_at) - statement_timestamp() as far from "THE_SCHEMA".job where claimed_at > statement_timestamp() + interval '1 second'
    union all
    select 'timer_job.created_at' as what, count(*) as n, max(created_at) - statement_timestamp() as far from "THE_SCHEMA".timer_job where created_at > statement_timestamp() + interval '1 second'
    union all
    select 'suspended_job.suspended_at' as what, count(*) as n, max(suspended_at) - statement_timestamp() as far from "THE_SCHEMA".suspended_job where suspended_at > statement_timestamp() + interval '1 second'
    union all
    select 'external_job.handed_at' as what, count(*) as n, max(handed_at) - statement_timestamp() as far from "THE_SCHEMA".external_job where handed_at > statement_timestamp() + interval '1 second'
    union all
    select 'dead_letter_job.dead_at' as what, count(*) as n, max(dead_at) - statement_timestamp() as far from "THE_SCHEMA".dead_letter_job where dead_at > statement_timestamp() + interval '1 second'
    union all
    select 'rate_log.at' as what, count(*) as n, max(at) - statement_timestamp() as far from "THE_SCHEMA".rate_log where at > statement_timestamp() + interval '1 second'
    union all
    select 'rule.changed_at' as what, count(*) as n, max(changed_at) - statement_timestamp() as far from "THE_SCHEMA".rule where changed_at > statement_timestamp() + interval '1 second'
    union all
    select 'schedule.last_at' as what, count(*) as n, max(last_at) - statement_timestamp() as far from "THE_SCHEMA".schedule where last_at > statement_timestamp() + interval '1 second'
    union all
    select 'submission.received_at' as what, count(*) as n, max(received_at) - statement_timestamp() as far from "THE_SCHEMA".submission where received_at > statement_timestamp() + interval '1 second'
    union all
    select 'history.ended_at' as what, count(*) as n, max(ended_at) - statement_timestamp() as far from "THE_SCHEMA".history where ended_at > statement_timestamp() + interval '1 second'
    union all
    select 'result.created_at' as what, count(*) as n, max(created_at) - statement_timestamp() as far from "THE_SCHEMA".result where created_at > statement_timestamp() + interval '1 second'
    union all
    select 'progress.at' as what, count(*) as n, max(at) - statement_timestamp() as far from "THE_SCHEMA".progress where at > statement_timestamp() + interval '1 second'
    union all
    select 'audit.at' as what, count(*) as n, max(at) - statement_timestamp() as far from "THE_SCHEMA".audit where at > statement_timestamp() + interval '1 second'
    union all
    select 'unblock.unblock_at', count(*), max(unblock_at) - statement_timestamp()
    from "THE_SCHEMA".unblock
    where unblock_at > statement_timestamp() + interval '1 second'
                     + coalesce((select max(period) from "THE_SCHEMA".rule), 0) * interval '1 microsecond'
    union all
    select 'job.visible_at', count(*), max(visible_at) - statement_timestamp()
    from "THE_SCHEMA".job
    where visible_at > statement_timestamp() + $1 * interval '1 microsecond'
) every
where n > 0
order by what
--- admit_check []
/* jobwright admit_check */
select exists (select from "THE_SCHEMA".unblock where unblock_at <= statement_timestamp()) as unblocks,
       exists (select from "THE_SCHEMA".rule r where r.paused or r.running is not null or r.rate is not null) as limited,
       (select (extract(epoch from min(unblock_at) - statement_timestamp()) * 1000000)::int8
        from "THE_SCHEMA".unblock
        where unblock_at > statement_timestamp()) as next_us,
       (select min(aging) from "THE_SCHEMA".rule) as aging_us,
       (select array_agg(r.scope || ':' || r.name) from "THE_SCHEMA".rule r
        where ("THE_SCHEMA".is_simple(r.scope, r.name, r.shares)
 and (select not exists (select from "THE_SCHEMA".rule o
                         where (o.running is not null or o.rate is not null) and not "THE_SCHEMA".is_simple(o.scope, o.name, o.shares)))) and (r.running is not null or r.rate is not null)) as counted,
       exists (select from "THE_SCHEMA".rule r
               where r.paused or (r.running is not null or r.rate is not null) and not ("THE_SCHEMA".is_simple(r.scope, r.name, r.shares)
 and (select not exists (select from "THE_SCHEMA".rule o
                         where (o.running is not null or o.rate is not null) and not "THE_SCHEMA".is_simple(o.scope, o.name, o.shares))))) as uncounted
--- admit_lock []
/* jobwright admit_lock */
select from "THE_SCHEMA".admission for update
--- admit_candidates [int8 _text _text int8 int8 bool]
/* jobwright admit_candidates */
with noted as materialized (
    select ctid as tid, key from "THE_SCHEMA".unblock where unblock_at <= statement_timestamp() limit 5 * $5::int8
),
picked as materialized (
    select distinct key from (select key from noted limit $5) first
),
unblocked as (
    delete from "THE_SCHEMA".unblock
    where ctid = any (array(select tid from noted where (key in (select key from picked)) is true))
    returning key, n
),
keys as materialized (
    select key, least(case when key like 'g:%' then max(n) else sum(n) end, $1::int8) as n from unblocked group by key
),
shares as materialized (
    select g.key, g.n, s.share
    from (
        select key, n from keys where key not like 'g:%' or (select s.ctid from "THE_SCHEMA".permit s where s.key collate "C" = keys.key limit 1) is null offset 0
    ) g
    cross join lateral (
        with recursive step as (
            (select b.share from "THE_SCHEMA".job b where b.blocked_on = g.key order by b.share limit 1)
            union all
            select (select b.share from "THE_SCHEMA".job b where b.blocked_on = g.key and b.share > step.share order by b.share limit 1)
            from step
            where step.share is not null
        )
        select share from step where share is not null
    ) s
)
select true as blocked, b.id, b.seq, b.rank, b.kind, b.queue, b.options, b.admitted as holds, b.blocked_on, b.share, null::text as key, null::int8 as n
from shares s
cross join lateral (
    select *
    from "THE_SCHEMA".job b
    where b.blocked_on = s.key and b.share = s.share and b.lock_owner is null
    order by b.rank, b.seq
    limit s.n
) b
union all
select true, b.id, b.seq, b.rank, b.kind, b.queue, b.options, b.admitted, b.blocked_on, b.share, null, null
from (select key from keys where key like 'g:%' offset 0) g
cross join lateral (select job_id from "THE_SCHEMA".permit where key collate "C" = g.key and node is null offset 0) s
cross join lateral (select * from "THE_SCHEMA".job where id = s.job_id and coalesce(blocked_on, '') = g.key and lock_owner is null offset 0) b
union all
select false, w.id, w.seq, w.rank, w.kind, w.queue, w.options, false, '', '', null, null
from (select unnest($2::text[]) as name) q
cross join lateral (
    select *
    from (
        select c.*
        from "THE_SCHEMA".job c
        where c.queue = q.name
          and c.lock_owner is null
          and c.blocked_on is null
          and not c.admitted
          and ($3::text[] is null or c.kind = any ($3))
          and (select not exists (
    select from "THE_SCHEMA".rule r
    where r.scope = 'queue' and r.paused
      and r.name in (q.name, '*')
))
        order by c.rank, c.seq
        limit $4
    ) c
    where exists (
        select from "THE_SCHEMA".rule r
        where (r.paused or r.running is not null or r.rate is not null)
          and (not $6::bool or r.paused or not ("THE_SCHEMA".is_simple(r.scope, r.name, r.shares)
 and (select not exists (select from "THE_SCHEMA".rule o
                         where (o.running is not null or o.rate is not null) and not "THE_SCHEMA".is_simple(o.scope, o.name, o.shares)))))
          and (
    "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options)))
)
    )
    limit $1
) w
union all
select null, null, (select count(*) >= 5 * $5::int8 or count(*) > (select count(*) from unblocked) from noted)::int::int8, null, null, null, null, null, null,
       null, key, n
from keys
--- admit_usage [_text _int8 _uuid]
/* jobwright admit_usage */
select 'permits' as what, k.key, null::uuid as job_id,
       (select count(s.ctid) from "THE_SCHEMA".permit s where s.key collate "C" = k.key)
           + (select coalesce(sum(u.n), 0) from "THE_SCHEMA".usage u where u.key = k.key)::int8 as n,
       null::int8 as oldest
from unnest($1::text[]) k(key)
union all
select 'held', key, job_id, 0, null
from "THE_SCHEMA".permit
where job_id = any ($3::uuid[])
union all
select 'rate', k.key, null, l.n, l.oldest
from unnest($1::text[], $2::int8[]) k(key, period)
cross join lateral (
    select sum(n) as n, min((extract(epoch from at) * 1000000)::int8) as oldest
    from "THE_SCHEMA".rate_log
    where key = k.key and at > statement_timestamp() - k.period * interval '1 microsecond'
) l
where k.period > 0 and l.n is not null
union all
select 'now', null, null, (extract(epoch from statement_timestamp()) * 1000000)::int8, null
--- admit_apply [_uuid _uuid _uuid _text _uuid _text _text _text _uuid _text _text _text _int4 _int8 _text _timestamptz _int4]
/* jobwright admit_apply */
with moved as (
    update "THE_SCHEMA".job set admitted = true, blocked_on = null, share = null
    where id = any ($1::uuid[]) and coalesce(blocked_on, '') <> '' and lock_owner is null
    returning id, queue
),
marked as (
    update "THE_SCHEMA".job set admitted = true, visible_at = null where id = any ($2::uuid[]) and not admitted and coalesce(blocked_on, '') = '' returning id, queue
),
turned as (
    update "THE_SCHEMA".job
    set blocked_on = ($6::text[])[array_position($5::uuid[], id)], share = ($7::text[])[array_position($5::uuid[], id)],
        admitted = admitted or ($8::text[])[array_position($5::uuid[], id)] is not null
    where id = any ($5::uuid[]) and coalesce(blocked_on, '') <> '' and lock_owner is null
    returning id, ($8::text[])[array_position($5::uuid[], id)] as hold
),
parked as (
    update "THE_SCHEMA".job
    set blocked_on = ($10::text[])[array_position($9::uuid[], id)], share = ($11::text[])[array_position($9::uuid[], id)], visible_at = null
    where id = any ($9::uuid[]) and lock_owner is null and not admitted and coalesce(blocked_on, '') = ''
),
taken as (
    insert into "THE_SCHEMA".permit (job_id, key)
    select s.id, s.key
    from unnest($3::uuid[], $4::text[]) as s(id, key)
    where s.id in (select id from moved union all select id from marked)
    union all
    select id, hold from turned where hold is not null
    on conflict do nothing
),
starts as materialized (
    select s.key, s.n, (
        select l.ctid
        from "THE_SCHEMA".rate_log l
        where l.key = s.key
          and l.at >= 'epoch'::timestamptz + (extract(epoch from statement_timestamp()) * 1000000)::int8 / s.part * s.part * interval '1 microsecond'
          and l.n < 1000000000
        order by l.at desc
        limit 1
    ) as tid
    from unnest($12::text[], $13::int4[], $14::int8[]) as s(key, n, part)
),
added as (
    update "THE_SCHEMA".rate_log l set n = l.n + s.n, at = statement_timestamp() from starts s where l.ctid = s.tid
),
counted as (
    insert into "THE_SCHEMA".rate_log (key, at, n) select key, statement_timestamp(), n from starts where tid is null
),
unblocked as (
    insert into "THE_SCHEMA".unblock (key, unblock_at, n)
    select o.key, coalesce(o.at, clock_timestamp()), o.n
    from unnest($15::text[], $16::timestamptz[], $17::int4[]) as o(key, at, n)
    where o.at is null or not exists (select from "THE_SCHEMA".unblock e where e.key = o.key and e.unblock_at <= o.at)
)
select count(*) as jobs, array_agg(distinct queue) as queues
from (select queue from moved union all select queue from marked) started
--- aging_queues []
/* jobwright aging_queues */
select q.queue, r.aging
from (
    with recursive step as (
        (select c.queue from "THE_SCHEMA".job c where c.blocked_on is null order by c.queue limit 1)
        union all
        select (select c.queue from "THE_SCHEMA".job c where c.queue > step.queue and c.blocked_on is null order by c.queue limit 1) from step where step.queue is not null
    )
    select queue from step where queue is not null
    union
    select substr(blocked_on, 3) from (
        with recursive step as (
            (select b.blocked_on from "THE_SCHEMA".job b where b.blocked_on >= 'q:' order by b.blocked_on limit 1)
            union all
            select (select b.blocked_on from "THE_SCHEMA".job b where b.blocked_on > step.blocked_on order by b.blocked_on limit 1) from step where step.blocked_on like 'q:%'
        )
        select blocked_on from step where blocked_on like 'q:%'
    ) keys
) q
join "THE_SCHEMA".rule r on r.scope = 'queue' and r.aging is not null
 and (r.name = q.queue or r.name = '*' and not exists (select from "THE_SCHEMA".rule own where own.scope = 'queue' and own.name = q.queue))
where exists (select from "THE_SCHEMA".rule a where a.aging is not null)
--- age [text int8 int8 text]
/* jobwright age */
with recursive ranks as (
    (select c.rank from "THE_SCHEMA".job c where c.queue = $1 and c.lock_owner is null and c.blocked_on is null order by c.rank limit 1)
    union all
    select (select c.rank from "THE_SCHEMA".job c where c.queue = $1 and c.rank > ranks.rank and c.lock_owner is null and c.blocked_on is null order by c.rank limit 1)
    from ranks
    where ranks.rank is not null
),
blocked_ranks as (
    (select b.share, b.rank from "THE_SCHEMA".job b where b.blocked_on = $4 order by b.share, b.rank limit 1)
    union all
    select n.share, n.rank
    from blocked_ranks r
    cross join lateral (
        select b.share, b.rank
        from "THE_SCHEMA".job b
        where b.blocked_on = $4 and (b.share, b.rank) > (r.share, r.rank)
        order by b.share, b.rank
        limit 1
    ) n
),
old as materialized (
    select c.ctid as tid, coalesce((c.options ->> 'aged')::int8, 0) as aged,
           greatest(0, least(floor(extract(epoch from statement_timestamp() - c.created_at) * 1000000 / $2)::int8,
                             c.rank + 32767 + coalesce((c.options ->> 'aged')::int8, 0))) as steps
    from ranks r
    cross join lateral (
        select j.ctid, j.rank, j.created_at, j.options
        from "THE_SCHEMA".job j
        where j.queue = $1 and j.rank = r.rank and j.lock_owner is null and j.blocked_on is null
        order by j.seq
        limit $3
        for update skip locked
    ) c
    where r.rank is not null
),
old_blocked as materialized (
    select c.ctid as tid, coalesce((c.options ->> 'aged')::int8, 0) as aged,
           greatest(0, least(floor(extract(epoch from statement_timestamp() - c.created_at) * 1000000 / $2)::int8,
                             c.rank + 32767 + coalesce((c.options ->> 'aged')::int8, 0))) as steps
    from blocked_ranks r
    cross join lateral (
        select b.ctid, b.rank, b.created_at, b.options
        from "THE_SCHEMA".job b
        where b.blocked_on = $4 and b.share = r.share and b.rank = r.rank and b.lock_owner is null
        order by b.seq
        limit $3
        for update skip locked
    ) c
),
raised as (
    update "THE_SCHEMA".job j
    set rank = least(j.rank - (old.steps - old.aged), 32767)::int2,
        options = coalesce(j.options, '{}') || jsonb_build_object('aged', old.steps)
    from (select * from old union all select * from old_blocked) old
    where j.ctid = old.tid and old.steps <> old.aged
    returning j.seq
)
select count(*) from raised
--- prune_rate_log [int8]
/* jobwright prune_rate_log */
with rules as materialized (
    select case scope when 'key' then 'l:' else left(scope, 1) || ':' end as prefix, name, coalesce(period, 0) as period
    from "THE_SCHEMA".rule
),
gone as (
    delete from "THE_SCHEMA".rate_log
    where ctid = any (array(
        select l.ctid
        from "THE_SCHEMA".rate_log l
        left join rules own on own.prefix || own.name = l.key
        left join rules each on each.prefix = left(l.key, 2) and each.name = '*'
        where l.at < statement_timestamp() - interval '1 minute' - coalesce(own.period, each.period, 0) * interval '1 microsecond'
        limit $1
        for update of l skip locked
    ))
    returning 1
)
select count(*) from gone
--- permit_faults []
/* jobwright permit_faults */
select 'the permit ' || s.key || ' is held by ' || s.job_id || ', which is gone'
from "THE_SCHEMA".permit s
where not exists (select from "THE_SCHEMA".job j where j.id = s.job_id and (j.admitted or j.blocked_on is not null and j.options ? 'ordered'))
  and not exists (select from "THE_SCHEMA".external_job j where j.id = s.job_id and j.admitted)
  and not exists (select from "THE_SCHEMA".timer_job j where j.id = s.job_id and j.options ? 'ordered')
  and not exists (select from "THE_SCHEMA".suspended_job j where j.id = s.job_id and j.options ? 'ordered')
  and not exists (select from "THE_SCHEMA".dead_letter_job j where j.id = s.job_id and j.options ? 'ordered')
  and not exists (select from "THE_SCHEMA".terminating_handler e where e.holder = s.job_id)
  and not exists (select from "THE_SCHEMA".node n where n.id = s.node)
union all
select 'the group ' || key || ' is held ' || count(*) || ' times' from "THE_SCHEMA".permit where key like 'g:%' group by key having count(*) > 1
union all
select 'the job ' || j.id || ' of group ' || (j.options ->> 'group') || ' was admitted and does not hold it'
from (select id, options from "THE_SCHEMA".job where admitted
      union all select id, options from "THE_SCHEMA".external_job where admitted) j
where j.options ? 'group'
  and not exists (select from "THE_SCHEMA".permit s where s.job_id = j.id and s.key = 'g:' || (j.options ->> 'group'))
union all
select 'the job ' || j.id || ' of group ' || (j.options ->> 'group') || ' is among the jobs that can start, and was not admitted'
from "THE_SCHEMA".job j
where j.options ? 'group' and not j.admitted and j.blocked_on is null
  and j.queue not like 'unreadable:%'
union all
select 'the job ' || j.id || ' behind ' || j.blocked_on || ' runs, and its node ' || j.lock_owner || ' does not hold the group'
from "THE_SCHEMA".job j
where j.blocked_on is not null and j.lock_owner is not null
  and not exists (select from "THE_SCHEMA".permit s where s.key collate "C" = j.blocked_on and s.node = j.lock_owner)
union all
select 'jobs wait at ' || b.blocked_on || ', which nobody holds and nobody will open'
from (select blocked_on, substr(blocked_on, 3) as name,
             case left(blocked_on, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
      from (select distinct blocked_on from "THE_SCHEMA".job where blocked_on is not null and lock_owner is null) g) b
where not exists (select from "THE_SCHEMA".permit s where s.key collate "C" = b.blocked_on)
  and not exists (select from "THE_SCHEMA".usage u where u.key = b.blocked_on and u.n > 0)
  and not exists (select from "THE_SCHEMA".unblock o where o.key = b.blocked_on)
  and not exists (select from "THE_SCHEMA".rule r
                  where r.scope = b.scope and (r.paused or r.running = 0)
                    and (r.name = b.name
                         or r.name = '*' and (r.paused or not exists (select from "THE_SCHEMA".rule own where own.scope = b.scope and own.name = b.name))))
--- overdue_unblocks []
/* jobwright overdue_unblocks */
select count(*) as unblocks, coalesce(max(extract(epoch from statement_timestamp() - unblock_at) * 1000000), 0)::int8 as longest_us
from "THE_SCHEMA".unblock
where unblock_at <= statement_timestamp()
--- rules []
/* jobwright rules */
select scope, name, paused, running, rate, period, aging, depth, shares from "THE_SCHEMA".rule order by scope, name
--- put_rule [text text bool int4 int4 int8 int8 int8 jsonb bool text text text jsonb]
/* jobwright put_rule */
with gone as (
    delete from "THE_SCHEMA".rule where $10::bool and scope = $1 and name = $2
),
put as (
    insert into "THE_SCHEMA".rule (scope, name, paused, running, rate, period, aging, depth, shares)
    select $1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb
    where not $10::bool
    on conflict (scope, name) do update
    set paused = excluded.paused, running = excluded.running, rate = excluded.rate, period = excluded.period,
        aging = excluded.aging, depth = excluded.depth, shares = excluded.shares, changed_at = clock_timestamp()
),
audited as (
    insert into "THE_SCHEMA".audit (who, action, what) select $13, 'rule', $14::jsonb where $13::text is not null
)
insert into "THE_SCHEMA".unblock (key, n)
select blocked_on, 100
from (
    select $11::text as blocked_on
    where $2 <> '*' and (select blocked_on from "THE_SCHEMA".job where blocked_on = $11 limit 1) is not null
    union all
    select distinct blocked_on from "THE_SCHEMA".job where $2 = '*' and blocked_on is not null and starts_with(blocked_on, $12)
) waiting
--- live_nodes []
/* jobwright live_nodes */
select id from "THE_SCHEMA".node where dead_at is null
--- permit_running [text text text]
/* jobwright permit_running */
with running as (
    update "THE_SCHEMA".job c
    set admitted = true
    where (c.lock_owner is not null or c.admitted) and c.blocked_on is null
      and (c.admitted
           or not exists (select from "THE_SCHEMA".usage u
                          where u.node = c.lock_owner and u.key = $3 || "THE_SCHEMA".subject($1, c.queue, c.kind, c.options)
                            and (c.version::int8 - u.first + 2147483648) % 2147483648 < 1073741824))
      and exists (select from "THE_SCHEMA".rule r where r.scope = $1 and r.name = $2 and r.running is not null and (
    "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options)))
))
    returning c.id, c.queue, c.kind, c.options
),
handed as (
    update "THE_SCHEMA".external_job c
    set admitted = true
    where exists (select from "THE_SCHEMA".rule r where r.scope = $1 and r.name = $2 and r.running is not null and (
    "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options)))
))
    returning c.id, c.queue, c.kind, c.options
),
leases as (
    select distinct s.job_id, c.queue, c.kind, c.options, s.node, s.version
    from "THE_SCHEMA".permit s
    cross join lateral (select * from "THE_SCHEMA".job where blocked_on = s.key and lock_owner = s.node offset 0) c
    where s.key like 'g:%' and s.node is not null
      and exists (select from "THE_SCHEMA".rule r where r.scope = $1 and r.name = $2 and r.running is not null and (
    "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) = r.name
    or r.name = '*' and "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options) is not null
       and (r.paused or not exists (select from "THE_SCHEMA".rule own
                       where own.scope = r.scope and own.name = "THE_SCHEMA".subject(r.scope, c.queue, c.kind, c.options)))
))
)
insert into "THE_SCHEMA".permit (job_id, key, node, version)
select id, $3 || "THE_SCHEMA".subject($1, queue, kind, options), node, version
from (select id, queue, kind, options, null::int4 as node, null::int4 as version from running
      union all select id, queue, kind, options, null, null from handed
      union all select * from leases) started
on conflict do nothing
--- notify [text _text]
/* jobwright notify */
select pg_notify($1, hint) from unnest($2::text[]) as hint
--- status_queues []
/* jobwright status_queues */
select queue,
       sum(waiting)::int8 as waiting, sum(running)::int8 as running, sum(timer)::int8 as timer, sum(overdue)::int8 as overdue,
       sum(suspended)::int8 as suspended, sum(dead)::int8 as dead, sum(external)::int8 as external, sum(blocked)::int8 as blocked,
       extract(epoch from clock_timestamp() - min(oldest))::float8 as oldest_waiting_seconds
from (
    select queue, count(*) filter (where case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end = 'waiting') as waiting, count(*) filter (where lock_owner is not null) as running,
           0 as timer, 0 as overdue, 0 as suspended, 0 as dead, 0 as external, count(*) filter (where case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end = 'blocked') as blocked,
           min(created_at) filter (where case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end = 'waiting') as oldest
    from "THE_SCHEMA".job group by queue
    union all
    select queue, 0, 0, count(*), count(*) filter (where due_at < clock_timestamp()), 0, 0, 0, 0, null
    from "THE_SCHEMA".timer_job group by queue
    union all
    select queue, 0, 0, 0, 0, count(*), 0, 0, 0, null from "THE_SCHEMA".suspended_job group by queue
    union all
    select queue, 0, 0, 0, 0, 0, count(*), 0, 0, null from "THE_SCHEMA".dead_letter_job group by queue
    union all
    select queue, 0, 0, 0, 0, 0, 0, count(*), 0, null from "THE_SCHEMA".external_job group by queue
) counts
group by queue
order by queue
--- status_nodes []
/* jobwright status_nodes */
select n.id, n.name, n.host, n.pid, n.started_at, extract(epoch from n.expires_at - clock_timestamp())::float8 as lease_seconds_left,
       n.dead_at is not null as dead, count(j.lock_owner) as running, n.broker
from "THE_SCHEMA".node n
left join (select lock_owner from "THE_SCHEMA".job where lock_owner is not null) j on j.lock_owner = n.id
group by n.id
order by n.id
--- list [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb int8 int8]
/* jobwright list */
with recursive lanes as (
    select f.queue, f.rank
    from (
        select queue, rank
        from "THE_SCHEMA".job
        where queue >= coalesce($3::text, '')
          and blocked_on is null
          and ($2::text[] is null or $2 && array['waiting', 'running'])
        order by queue, rank
        limit 1
    ) f
    where $3::text is null or f.queue = $3
    union all
    select n.queue, n.rank
    from lanes l
    cross join lateral (
        select j.queue, j.rank
        from "THE_SCHEMA".job j
        where (j.queue, j.rank) > (l.queue, l.rank) and j.blocked_on is null
        order by j.queue, j.rank
        limit 1
    ) n
    where $3::text is null or n.queue = $3
),
blocked_queues as (
    select f.queue
    from (
        select queue
        from "THE_SCHEMA".job
        where queue >= coalesce($3::text, '')
          and blocked_on > ''
          and ($2::text[] is null or $2 && array['blocked', 'running'])
        order by queue
        limit 1
    ) f
    where $3::text is null or f.queue = $3
    union all
    select n.queue
    from blocked_queues b
    cross join lateral (
        select j.queue
        from "THE_SCHEMA".job j
        where j.queue > b.queue and j.blocked_on > ''
        order by j.queue
        limit 1
    ) n
    where $3::text is null or n.queue = $3
)
(
    select p.*
    from lanes l
    cross join lateral (
        select id, seq, case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end as state, kind, queue, -rank as priority, attempt, max_attempts, created_at, null::timestamptz as due_at, lock_owner as owner,
        claimed_at as claimed_at, errors -> -1 ->> 'error' as last_error
        from (select * from "THE_SCHEMA".job i where i.queue = l.queue and i.rank = l.rank and i.seq > $11 and i.blocked_on is null) j
        where ($2::text[] is null or case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end = any ($2))
          and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
        order by seq
        limit $12
    ) p
    order by p.seq
    limit $12
)
union all
(
    select p.*
    from blocked_queues b
    cross join lateral (
        select id, seq, case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end as state, kind, queue, -rank as priority, attempt, max_attempts, created_at, null::timestamptz as due_at, lock_owner as owner,
        claimed_at as claimed_at, errors -> -1 ->> 'error' as last_error
        from (select * from "THE_SCHEMA".job i where i.queue = b.queue and i.seq > $11 and i.blocked_on > '') j
        where ($2::text[] is null or case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end = any ($2))
          and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
        order by seq
        limit $12
    ) p
    order by p.seq
    limit $12
)
union all
(
    select id, seq, 'external' as state, kind, queue, -rank as priority, attempt, max_attempts, created_at, null::timestamptz as due_at, null::int8 as owner,
        null::timestamptz as claimed_at, errors -> -1 ->> 'error' as last_error
    from "THE_SCHEMA".external_job
    where ($2::text[] is null or 'external' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
      and seq > $11
    order by seq
    limit $12
)
union all
(
    select id, seq, 'timer' as state, kind, queue, -rank as priority, attempt, max_attempts, created_at, due_at as due_at, null::int8 as owner,
        null::timestamptz as claimed_at, errors -> -1 ->> 'error' as last_error
    from "THE_SCHEMA".timer_job
    where ($2::text[] is null or 'timer' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
      and seq > $11
    order by seq
    limit $12
)
union all
(
    select id, seq, 'suspended' as state, kind, queue, -rank as priority, attempt, max_attempts, created_at, due_at as due_at, null::int8 as owner,
        null::timestamptz as claimed_at, errors -> -1 ->> 'error' as last_error
    from "THE_SCHEMA".suspended_job
    where ($2::text[] is null or 'suspended' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
      and seq > $11
    order by seq
    limit $12
)
union all
(
    select id, seq, 'dead' as state, kind, queue, -rank as priority, attempt, max_attempts, created_at, null::timestamptz as due_at, null::int8 as owner,
        null::timestamptz as claimed_at, errors -> -1 ->> 'error' as last_error
    from "THE_SCHEMA".dead_letter_job
    where ($2::text[] is null or 'dead' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and ($8::timestamptz is null or dead_at >= $8)
      and ($9::timestamptz is null or dead_at < $9)
      and seq > $11
    order by seq
    limit $12
)
order by seq
limit $12
--- show [uuid]
/* jobwright show */
select id, seq, state, kind, queue, priority, attempt, max_attempts, created_at, due_at, owner, claimed_at,
       errors -> -1 ->> 'error' as last_error,
       version, dead_at, reason, payload, body, content_type, headers, errors, options, blocked_on
from "THE_SCHEMA".jobs
where id = $1
--- show_bare [uuid]
/* jobwright show_bare */
select id, seq, state, kind, queue, priority, attempt, max_attempts, created_at, due_at, owner, claimed_at,
       errors -> -1 ->> 'error' as last_error,
       version, dead_at, reason, null::jsonb as payload, null::bytea as body, null::text as content_type, null::jsonb as headers, errors,
       null::jsonb as options, blocked_on
from "THE_SCHEMA".jobs
where id = $1
--- count [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb _text]
/* jobwright count */
select state, count(*)
from "THE_SCHEMA".jobs
where ($2::text[] is null or state = any ($2))
  and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and ($8::timestamptz is null or dead_at >= $8)
      and ($9::timestamptz is null or dead_at < $9)
  and state = any ($11)
group by state
--- count_some [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb _text int8]
/* jobwright count_some */
select state, count(*)
from (
    select state
    from "THE_SCHEMA".jobs
    where ($2::text[] is null or state = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and ($8::timestamptz is null or dead_at >= $8)
      and ($9::timestamptz is null or dead_at < $9)
      and state = any ($11)
    order by seq
    limit $12
) first
group by state
--- retry [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb]
/* jobwright retry */
with revived as (
    delete from "THE_SCHEMA".dead_letter_job
    where ($2::text[] is null or 'dead' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and ($8::timestamptz is null or dead_at >= $8)
      and ($9::timestamptz is null or dead_at < $9)
    returning *
),
hurried as (
    delete from "THE_SCHEMA".timer_job
    where ($2::text[] is null or 'timer' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning *
),
moved as (
    insert into "THE_SCHEMA".job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, 0, errors, case when options ? 'ttl'
     then options || jsonb_build_object('expires', (extract(epoch from clock_timestamp()) * 1000000)::int8 + (options ->> 'ttl')::int8)
     else options
end
    from revived
    union all
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options
    from hurried
    on conflict (id) do nothing
)
select 'dead' as state, count(*) from revived
union all
select 'timer', count(*) from hurried
--- retry_spread [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb int8 int8 int8]
/* jobwright retry_spread */
with chosen as materialized (
    select tid, dead,
           clock_timestamp() + $11::float8 / $13 * ($12 + row_number() over (order by seq) - 1) * interval '1 microsecond' as due
    from (
        select ctid as tid, seq, true as dead
        from "THE_SCHEMA".dead_letter_job
        where ($2::text[] is null or 'dead' = any ($2))
          and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and ($8::timestamptz is null or dead_at >= $8)
      and ($9::timestamptz is null or dead_at < $9)
        union all
        select ctid, seq, false
        from "THE_SCHEMA".timer_job
        where ($2::text[] is null or 'timer' = any ($2))
          and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    ) first
),
revived as (
    delete from "THE_SCHEMA".dead_letter_job d using chosen c where d.ctid = c.tid and c.dead returning d.*, c.due
),
advanced as (
    update "THE_SCHEMA".timer_job t set due_at = least(t.due_at, c.due)
    from chosen c where t.ctid = c.tid and not c.dead
    returning t.id
),
spread as (
    insert into "THE_SCHEMA".timer_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, due_at, attempt, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, due, 0, errors,
           case when options ? 'ttl'
                then options || jsonb_build_object('expires', (extract(epoch from due) * 1000000)::int8 + (options ->> 'ttl')::int8)
                else options
           end
    from revived
    on conflict (id) do nothing
)
select 'dead' as state, count(*) from revived
union all
select 'timer', count(*) from advanced
--- dead_letter_groups [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb int8]
/* jobwright dead_letter_groups */
select kind, queue, reason, count(*), min(dead_at) as first, max(dead_at) as last, (array_agg(id order by dead_at desc))[1] as example
from (
    select kind, queue, left(split_part(ltrim(reason, E' \t\r\n'), E'\n', 1), 300) as reason, dead_at, id
    from "THE_SCHEMA".dead_letter_job
    where ($2::text[] is null or 'dead' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and ($8::timestamptz is null or dead_at >= $8)
      and ($9::timestamptz is null or dead_at < $9)
    order by dead_at desc
    limit $11
) newest
group by kind, queue, reason
--- choose [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb _text int8]
/* jobwright choose */
select id
from "THE_SCHEMA".jobs
where state = any ($11)
  and ($2::text[] is null or state = any ($2))
  and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and ($8::timestamptz is null or dead_at >= $8)
      and ($9::timestamptz is null or dead_at < $9)
order by seq
limit $12
--- list_ids [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb int8 int8]
/* jobwright list_ids */
select id, seq, state, kind, queue, priority, attempt, max_attempts, created_at, due_at, owner, claimed_at,
       errors -> -1 ->> 'error' as last_error
from "THE_SCHEMA".jobs
where ($2::text[] is null or state = any ($2))
  and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and ($8::timestamptz is null or dead_at >= $8)
      and ($9::timestamptz is null or dead_at < $9)
  and seq > $11
order by seq
limit $12
--- suspend [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb]
/* jobwright suspend */
with gone as (
    delete from "THE_SCHEMA".job
    where lock_owner is null
      and ($2::text[] is null or case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning *, case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end as state
),
gone_timers as (
    delete from "THE_SCHEMA".timer_job
    where ($2::text[] is null or 'timer' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning *
),
moved as (
    insert into "THE_SCHEMA".suspended_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options, due_at)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options, null::timestamptz from gone
    union all
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options, due_at from gone_timers
    on conflict (id) do nothing
)
select state, count(*), array_agg(id) as ids from gone group by state
union all
select 'timer', count(*), array_agg(id) from gone_timers
--- resume [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb]
/* jobwright resume */
with back as (
    delete from "THE_SCHEMA".suspended_job
    where ($2::text[] is null or 'suspended' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning *
),
timers as (
    insert into "THE_SCHEMA".timer_job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options, due_at)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options, due_at from back where due_at > statement_timestamp()
    on conflict (id) do nothing
),
jobs as (
    insert into "THE_SCHEMA".job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options from back where due_at is null or due_at <= statement_timestamp()
    on conflict (id) do nothing
)
select 'suspended' as state, count(*), null::uuid[] as ids from back
--- run_now [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb]
/* jobwright run_now */
with hurried as (
    delete from "THE_SCHEMA".timer_job
    where ($2::text[] is null or 'timer' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning *
),
back as (
    delete from "THE_SCHEMA".suspended_job
    where ($2::text[] is null or 'suspended' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning *
),
jobs as (
    insert into "THE_SCHEMA".job (seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options)
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options from hurried
    union all
    select seq, created_at, id, kind, queue, rank, max_attempts, payload, body, content_type, headers, version, attempt, errors, options from back
    on conflict (id) do nothing
)
select 'timer' as state, count(*), null::uuid[] as ids from hurried
union all
select 'suspended', count(*), null from back
--- change_idle [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb int2 timestamptz int8 text int4]
/* jobwright change_idle */
with timers as (
    update "THE_SCHEMA".timer_job t
    set rank = coalesce($11, t.rank), max_attempts = coalesce($15, t.max_attempts), queue = coalesce($14, t.queue),
        version = (t.version + case when t.queue <> $14 then 1 else 0 end) & 2147483647,
        due_at = coalesce($12, statement_timestamp() + $13 * interval '1 microsecond', t.due_at)
    where ($2::text[] is null or 'timer' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning 1
),
suspended as (
    update "THE_SCHEMA".suspended_job t
    set rank = coalesce($11, t.rank), max_attempts = coalesce($15, t.max_attempts), queue = coalesce($14, t.queue),
        version = (t.version + case when t.queue <> $14 then 1 else 0 end) & 2147483647,
        due_at = coalesce($12, statement_timestamp() + $13 * interval '1 microsecond', t.due_at)
    where ($2::text[] is null or 'suspended' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning 1
),
dead as (
    update "THE_SCHEMA".dead_letter_job t
    set rank = coalesce($11, t.rank), max_attempts = coalesce($15, t.max_attempts), queue = coalesce($14, t.queue),
        version = (t.version + case when t.queue <> $14 then 1 else 0 end) & 2147483647
    where coalesce($11::text, $14, $15::text) is not null
      and ($2::text[] is null or 'dead' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and ($8::timestamptz is null or dead_at >= $8)
      and ($9::timestamptz is null or dead_at < $9)
    returning 1
)
select 'timer' as state, count(*), null::uuid[] as ids from timers
union all
select 'suspended', count(*), null from suspended
union all
select 'dead', count(*), null from dead
--- change_waiting [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb int2 int4]
/* jobwright change_waiting */
with changed as (
    update "THE_SCHEMA".job
    set rank = coalesce($11, rank), max_attempts = coalesce($12, max_attempts)
    where lock_owner is null
      and ($2::text[] is null or case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end as state
)
select state, count(*), null::uuid[] as ids from changed group by state
--- stale_claims [int8 _uuid _int8]
/* jobwright stale_claims */
select w.id, w.version
from unnest($2::uuid[], $3::int8[]) as w(id, version)
where (select j.id from "THE_SCHEMA".job j where j.id = w.id and j.version = w.version and j.lock_owner = $1 limit 1) is null
--- evict [int8]
/* jobwright evict */
update "THE_SCHEMA".node set dead_at = coalesce(dead_at, clock_timestamp()), evicted = evicted or dead_at is null
where id = $1
returning id
--- audit [int8 text text int8]
/* jobwright audit */
select id, at, who, action, what, counts
from "THE_SCHEMA".audit
where ($1::int8 is null or id < $1)
  and ($2::text is null or who = $2)
  and ($3::text is null or action = $3)
order by id desc
limit $4
--- audit_write [text text jsonb jsonb]
/* jobwright audit_write */
insert into "THE_SCHEMA".audit (who, action, what, counts) values ($1, $2, $3, $4) returning id
--- audit_count [int8 jsonb]
/* jobwright audit_count */
update "THE_SCHEMA".audit set counts = $2 where id = $1
--- cancel [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb]
/* jobwright cancel */
with gone as (
    delete from "THE_SCHEMA".job
    where ($2::text[] is null or case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end as state, id, version, lock_owner as node, admitted
           , seq, kind, queue, attempt, created_at, claimed_at as started_at, options ->> 'tenant' as tenant
),
gone_timers as (
    delete from "THE_SCHEMA".timer_job
    where ($2::text[] is null or 'timer' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning 'timer' as state
           , id, seq, kind, queue, attempt, created_at, options ->> 'tenant' as tenant
),
gone_suspended as (
    delete from "THE_SCHEMA".suspended_job
    where ($2::text[] is null or 'suspended' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning 'suspended' as state
           , id, seq, kind, queue, attempt, created_at, options ->> 'tenant' as tenant
),
gone_external as (
    delete from "THE_SCHEMA".external_job
    where ($2::text[] is null or 'external' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning 'external' as state, id, version, lease_until, admitted
           , seq, kind, queue, attempt, created_at, handed_at as started_at, options ->> 'tenant' as tenant
),
still_running as (
    insert into "THE_SCHEMA".terminating_handler (job_id, version, node, until)
    select id, version, node, null::timestamptz from gone where state = 'running' and admitted
    union all
    select id, version, null, lease_until from gone_external where admitted
)
 , remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'cancelled', attempt, created_at, started_at, node, tenant
     from (select id, seq, kind, queue, attempt, created_at, started_at, node, tenant from gone
           union all select id, seq, kind, queue, attempt, created_at, null, null, tenant from gone_timers
           union all select id, seq, kind, queue, attempt, created_at, null, null, tenant from gone_suspended
           union all select id, seq, kind, queue, attempt, created_at, started_at, 0, tenant from gone_external) ended
 )
select state, count(*), null::uuid[] as ids
from (select state from gone union all select state from gone_timers union all select state from gone_suspended
      union all select state from gone_external) states
group by state
--- delete [_uuid _text text text text timestamptz timestamptz timestamptz timestamptz jsonb]
/* jobwright delete */
with gone as (
    delete from "THE_SCHEMA".job
    where lock_owner is null
      and ($2::text[] is null or case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end as state
           , id, seq, kind, queue, attempt, created_at, claimed_at as started_at, lock_owner as node, options ->> 'tenant' as tenant
),
gone_timers as (
    delete from "THE_SCHEMA".timer_job
    where ($2::text[] is null or 'timer' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning 'timer' as state
           , id, seq, kind, queue, attempt, created_at, null::timestamptz as started_at, null::int8 as node, options ->> 'tenant' as tenant
),
gone_suspended as (
    delete from "THE_SCHEMA".suspended_job
    where ($2::text[] is null or 'suspended' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and $8::timestamptz is null
      and $9::timestamptz is null
    returning 'suspended' as state
           , id, seq, kind, queue, attempt, created_at, null::timestamptz as started_at, null::int8 as node, options ->> 'tenant' as tenant
),
gone_dead as (
    delete from "THE_SCHEMA".dead_letter_job
    where ($2::text[] is null or 'dead' = any ($2))
      and ($1::uuid[] is null or id = any ($1))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
      and ($5::text is null or strpos(errors -> -1 ->> 'error', $5) > 0)
      and ($6::timestamptz is null or created_at >= $6)
      and ($7::timestamptz is null or created_at < $7)
      and ($10::jsonb is null or options @> $10)
      and ($8::timestamptz is null or dead_at >= $8)
      and ($9::timestamptz is null or dead_at < $9)
    returning 'dead' as state
           , id, seq, kind, queue, attempt, created_at, null::timestamptz as started_at, null::int8 as node, options ->> 'tenant' as tenant
)
 , remembered as (
     insert into "THE_SCHEMA".history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'deleted', attempt, created_at, started_at, node, tenant
     from (select * from gone union all select * from gone_timers union all select * from gone_suspended union all select * from gone_dead) ended
 )
select state, count(*), null::uuid[] as ids
from (select state from gone union all select state from gone_timers union all select state from gone_suspended
      union all select state from gone_dead) states
group by state
--- schedule_next []
/* jobwright schedule_next */
select (extract(epoch from min(next_at) - statement_timestamp()) * 1000000)::int8
from "THE_SCHEMA".schedule
where not paused and next_at is not null
--- schedule_named [_text]
/* jobwright schedule_named */
select statement_timestamp() as now, s.*
from (select) clock
left join (
    select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at,
           last_job, fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
    from "THE_SCHEMA".schedule
    where name = any ($1)
    order by name
) s on true
--- schedule_page [text int8]
/* jobwright schedule_page */
select statement_timestamp() as now, s.*
from (select) clock
left join (
    select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at,
           last_job, fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
    from "THE_SCHEMA".schedule
    where name > $1
    order by name
    limit $2
) s on true
--- schedule_due [int8]
/* jobwright schedule_due */
select statement_timestamp() as now, s.*
from (select) clock
left join (
    select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at,
           last_job, fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
    from "THE_SCHEMA".schedule
    where not paused and next_at <= statement_timestamp()
    order by next_at
    limit $1
) s on true
--- schedule_insert [text text text text text timestamptz int8 timestamptz bool timestamptz text text int2 int4 jsonb bytea text jsonb jsonb]
/* jobwright schedule_insert */
insert into "THE_SCHEMA".schedule (name, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at,
                               kind, queue, priority, max_attempts, payload, body, content_type, headers, options)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
        $11, $12, $13, $14, $15, $16, $17, $18, $19)
on conflict (name) do nothing
returning name
--- schedule_update [text text text text text timestamptz int8 timestamptz bool timestamptz text text int2 int4 jsonb bytea text jsonb jsonb int8]
/* jobwright schedule_update */
update "THE_SCHEMA".schedule
set version = version + 1, schedule = $2, zone = $3, misfire = $4, overlap = $5,
    until_at = $6, times = $7, anchor_at = $8,
    paused = $9, next_at = $10, kind = $11, queue = $12, priority = $13, max_attempts = $14,
    payload = $15, body = $16, content_type = $17, headers = $18, options = $19
where name = $1 and version = $20
returning name
--- schedule_delete [_text]
/* jobwright schedule_delete */
delete from "THE_SCHEMA".schedule where name = any ($1) returning name
--- schedule_lock [_text _int8 _uuid _timestamptz]
/* jobwright schedule_lock */
with asked as materialized (
    select a.name, a.version, a.previous, a.due
    from unnest($1::text[], $2::int8[], $3::uuid[], $4::timestamptz[]) as a(name, version, previous, due)
),
mine as materialized (
    select name, version, next_at
    from "THE_SCHEMA".schedule
    where name = any ($1)
    for update skip locked
)
select a.name,
       a.previous is not null
       and (exists (select from "THE_SCHEMA".job t where t.id = a.previous)
            or exists (select from "THE_SCHEMA".timer_job t where t.id = a.previous)
            or exists (select from "THE_SCHEMA".suspended_job t where t.id = a.previous)
            or exists (select from "THE_SCHEMA".external_job t where t.id = a.previous)) as alive
from asked a
where exists (select from mine m where m.name = a.name and m.version = a.version and m.next_at = a.due)
--- schedule_fired [_text _int8 _timestamptz _timestamptz _uuid _int8]
/* jobwright schedule_fired */
update "THE_SCHEMA".schedule s
set version = s.version + 1, next_at = f.next_at, last_at = coalesce(f.last_at, s.last_at),
    last_job = coalesce(f.last_job, s.last_job), fired = s.fired + f.sent
from unnest($1::text[], $2::int8[], $3::timestamptz[], $4::timestamptz[], $5::uuid[], $6::int8[])
         as f(name, version, next_at, last_at, last_job, sent)
where s.name = f.name and s.version = f.version
returning s.name
