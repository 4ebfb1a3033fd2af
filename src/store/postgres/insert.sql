-- name: insert_one
-- The flush of one fresh job that is due now, in its own transaction: the usual single send. Like `insert_ready`, but an array takes
-- longer to unpack than a row to insert, and an answer with a row takes a tenth longer than one without.
-- {content_single}
insert into {schema}.job ({content})
values ({content_single})

-- name: insert_one_named
-- Like `insert_one`, in a transaction with other changes: it returns the transaction's id, as `insert_ready` does.
-- {content_single}
insert into {schema}.job ({content})
values ({content_single})
returning pg_current_xact_id()::text as xid

-- name: insert_one_hidden
-- Like `insert_one`, for a row that is hidden for its delivery: the usual single send over a broker.
-- {content_single}, :hold_us::int8
insert into {schema}.job ({content}, visible_at)
values ({content_single}, clock_timestamp() + :hold_us::int8::float8 * interval '1 microsecond')

-- name: insert_alike
-- The flush of jobs that differ only in their payload, which is JSON: most batches. It passes two arrays instead of nine: each array is
-- unpacked separately, which takes a tenth of the time of a batch. Rows and answer are as in insert_ready.
-- :ids::uuid[], :payloads::text[], :kind::text, :queue::text, :rank::int2, :max_attempts::int4
with flushed as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload)
    -- JSON is passed as text, here and in all statements that write many rows: the memory that the server needs to parse a document is
    -- released row by row. An array of jsonb would be parsed as a whole, and keep all of that to the end.
    select id, :kind, :queue, :rank, :max_attempts, payload::jsonb
    from unnest(:ids::uuid[], :payloads::text[]) as m(id, payload)
)
select pg_current_xact_id()::text as xid

-- name: insert_alike_options
-- Like `insert_alike`, for jobs that also differ in their options (`insert_options` says which options).
-- :ids::uuid[], :payloads::text[], :options::text[], :kind::text, :queue::text, :rank::int2, :max_attempts::int4
with flushed as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, options)
    select id, :kind, :queue, :rank, :max_attempts, payload::jsonb, options::jsonb
    from unnest(:ids::uuid[], :payloads::text[], :options::text[]) as m(id, payload, options)
)
select pg_current_xact_id()::text as xid

-- name: insert_ready
-- The common flush: fresh ids, all due now. One row source for all columns keeps it one statement of one shape, whatever the number of
-- messages. Rows get their seq in the order of the arrays. The answer is the transaction's id, with which the server can be asked later
-- whether it committed.
-- {content_arrays}
with flushed as (
    insert into {schema}.job ({content})
    select {content_values:m}
    from unnest({content_arrays})
             as m({content})
)
select pg_current_xact_id()::text as xid

-- name: insert_hidden
-- Like `insert_ready`, for a flush of which some rows are hidden for their delivery. A separate statement, so that installations without
-- a broker pay nothing for it.
-- {content_arrays}, :holds_us::int8[]
with flushed as (
    insert into {schema}.job ({content}, visible_at)
    select {content_values:m},
           case when m.hold_us > 0 then clock_timestamp() + m.hold_us::float8 * interval '1 microsecond' end
    from unnest({content_arrays},
                :holds_us::int8[])
             as m({content}, hold_us)
)
select pg_current_xact_id()::text as xid

-- name: insert_options
-- Like `insert_ready`, for jobs with options that do not affect their rows: a tenant, a unique key, a limit key, delays of their own.
-- Jobs with a group or a time to live use `insert_any`.
-- {content_arrays}, :options::text[]
with flushed as (
    insert into {schema}.job ({content}, options)
    select {content_values:m}, m.options::jsonb
    from unnest({content_arrays}, :options::text[])
             as m({content}, options)
)
select pg_current_xact_id()::text as xid

-- name: insert_any
-- The general flush: delays, and ids given by the sender.
-- decide_ids decides whether a given id is new: it waits for other senders of the same id.
-- The answer names the rows that were written, and the ids that are known as those of other jobs.
-- {content_arrays}, :delays_us::int8[], :due_times::timestamptz[], :given::bool[], :holds_us::int8[], :options::jsonb[]
with {given_ids},
fresh as (
    {sent_columns}
    from unnest({content_arrays}, :delays_us::int8[], :due_times::timestamptz[], :given::bool[], :holds_us::int8[], :options::jsonb[])
             with ordinality as m({content}, delay_us, at, given, hold_us, asked, n)
         cross join (select clock_timestamp() as now) moment
    -- If one of the ids is known as that of another job, nothing at all is written.
    where (not m.given or m.id in (select c.job_id from chosen c where c.known is null))
      and not exists (select from chosen c where c.known <> 'same'::text)
    order by m.n
),
{numbered},
ready as (
    insert into {schema}.job ({carried}, visible_at, options, blocked_on, share)
    select m.seq, m.now, {content_values:m},
           case when m.hold_us > 0 and (m.options ? 'group'::text) is not true then m.now + m.hold_us::float8 * interval '1 microsecond' end, m.options,
           case when m.options ? 'group'::text then 'g:' || (m.options ->> 'group'::text) end, case when m.options ? 'group'::text then '' end
    from msg m
    where m.due_at is null or m.due_at <= m.now
    order by m.n
    on conflict (id) do nothing
    returning id, seq, created_at, blocked_on
),
{blocked_and_later}
    returning id, seq, created_at
)
select id, seq, created_at, false as owned, pg_current_xact_id()::text as xid, null::bytea as ctid, null::text as known from ready
union all
select id, seq, created_at, false, pg_current_xact_id()::text, null, null from later
union all
select job_id, null, null, false, pg_current_xact_id()::text, null, known from chosen where known <> 'same'::text

-- name: insert_owned
-- The general flush with preclaimed rows (the hot path); see `insert_any` for the rest. A separate statement, because only it needs a
-- right on the node table: roles that only send do not.
-- `me` locks the node, so that preclaimed rows have a known owner. A dead node gets nothing, and its rows wait. So do the rows of a
-- transaction with an old snapshot, which could not see that the node died meanwhile.
-- Only COMMIT is to follow. If this process falls silent before it, the server ends the transaction, and with it the lock on the node.
-- {content_arrays}, :delays_us::int8[], :due_times::timestamptz[], :given::bool[], :node::int8, :own::bool[], :holds_us::int8[],
-- :options::jsonb[], :claim::int4
with me as materialized (
    select {schema}.hold_node(:node) as id
    from (select set_config('idle_in_transaction_session_timeout', '15000', true)) bounded
    where current_setting('transaction_isolation') = 'read committed'
),
{given_ids},
fresh as (
    {sent_columns}
    from unnest({content_arrays}, :delays_us::int8[], :due_times::timestamptz[], :given::bool[], :own::bool[], :holds_us::int8[], :options::jsonb[])
             with ordinality as m({content}, delay_us, at, given, own, hold_us, asked, n)
         cross join (select clock_timestamp() as now) moment
    -- If one of the ids is known as that of another job, nothing at all is written.
    where (not m.given or m.id in (select c.job_id from chosen c where c.known is null))
      and not exists (select from chosen c where c.known <> 'same'::text)
    order by m.n
),
{numbered},
ready as (
    insert into {schema}.job ({carried}, lock_owner, version, attempt, claimed_at, visible_at, options, blocked_on, share)
    select m.seq, m.now, {content_values:m}, me.id, case when me.id is not null then :claim::int4 else 0 end, (me.id is not null)::int, case when me.id is not null then m.now end,
           -- A row with an owner is not delivered.
           case when me.id is null and m.hold_us > 0 and (m.options ? 'group'::text) is not true then m.now + m.hold_us::float8 * interval '1 microsecond' end, m.options,
           case when m.options ? 'group'::text then 'g:' || (m.options ->> 'group'::text) end, case when m.options ? 'group'::text then '' end
    from msg m left join me on m.own and (m.options ? 'group'::text) is not true
         -- A paused or limited job has no owner before it is admitted.
         and not exists (select from {schema}.rule r where (r.paused or r.running is not null or r.rate is not null) and {covers:m})
    where m.due_at is null or m.due_at <= m.now
    order by m.n
    on conflict (id) do nothing
    returning id, seq, created_at, lock_owner is not null as owned, ctid, blocked_on
),
{blocked_and_later}
    returning id, seq, created_at
)
select id, seq, created_at, owned, pg_current_xact_id()::text as xid, tidsend(ctid) as ctid, null::text as known from ready
union all
select id, seq, created_at, false, pg_current_xact_id()::text, null, null from later
union all
select job_id, null, null, false, pg_current_xact_id()::text, null, known from chosen where known <> 'same'::text

-- name: known_ids
-- Which of these ids, chosen by their senders, exist already, and which of those as other jobs. It runs before the keys of unique jobs are taken,
-- and locks the ids, as the flush does.
-- :ids::uuid[], :kinds::text[], :queues::text[]
select d.job_id as id, d.known
from {schema}.decide_ids(:ids, :kinds, :queues) d
where d.known is not null

-- name: lock_ids
-- Locks all ids of a batch that several statements write, in the order of the ids. If each statement locked its own, two batches could
-- deadlock. Returns those that are known as other jobs, before any of the statements has written something.
-- :ids::uuid[], :kinds::text[], :queues::text[]
select d.job_id as id, d.known
from {schema}.decide_ids(:ids, :kinds, :queues) d
where d.known <> 'same'::text

-- name: take_unique
-- See the function. It is one because each of its steps must see what was committed meanwhile.
-- :keys::bytea[], :ids::uuid[], :holds::text[], :periods_us::int8[], :conflicts::text[]
select n, verdict, holder from {schema}.take_unique(:keys, :ids, :holds, :periods_us, :conflicts)

-- name: full_queues
-- Which queues are full. Counts no further than the limit.
-- :queues::text[], :depths::int8[]
select q.name, q.depth
from unnest(:queues::text[], :depths::int8[]) as q(name, depth)
where (select count(*) from (select from {schema}.job j where j.queue = q.name and j.lock_owner is null and j.blocked_on is null limit q.depth) w)
    + (select count(*) from (select from {schema}.job b where b.queue = q.name and b.lock_owner is null and b.blocked_on > '' limit q.depth) w) >= q.depth

-- name: unhide
-- Ends the head start of deliveries that will not arrive. A row that is locked at this moment is being claimed, and needs nothing more.
-- :ids::uuid[]
with freed as (
    update {schema}.job
    set visible_at = null
    where {briefly} and ctid = any (array(
        select c.ctid
        from {schema}.job c
        where c.id = any (:ids::uuid[]) and c.lock_owner is null and c.visible_at is not null
        for update skip locked
    ))
    returning queue
)
select distinct queue from freed
