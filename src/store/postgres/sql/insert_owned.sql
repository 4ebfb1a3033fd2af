-- The general flush with preclaimed rows (the hot path); see insert_any.sql for the rest. A separate statement, because only it needs a
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
    select m.*, coalesce(m.at, moment.now + m.delay_us::float8 * interval '1 microsecond') as due_at, moment.now as now,
           -- A time to live begins with the flush, by this server's clock.
           case when m.asked ? 'ttl'::text
                then m.asked || jsonb_build_object('expires', (extract(epoch from moment.now)::float8 * 1000000::float8)::int8 + (m.asked ->> 'ttl'::text)::int8)
                else m.asked
           end as options
    from unnest({content_arrays}, :delays_us::int8[], :due_times::timestamptz[], :given::bool[], :own::bool[], :holds_us::int8[], :options::jsonb[])
             with ordinality as m({content}, delay_us, at, given, own, hold_us, asked, n)
         cross join (select clock_timestamp() as now) moment
    -- If one of the ids is known as that of another job, nothing at all is written.
    where (not m.given or m.id in (select c.job_id from chosen c where c.known is null))
      and not exists (select from chosen c where c.known <> 'same'::text)
    order by m.n
),
-- The sequence is read here and not by the defaults of two tables, so that a delayed message keeps its place among the others.
msg as materialized (
    select fresh.*, nextval('{schema}.job_seq') as seq from fresh
),
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
-- A job of a group is blocked on its key until it is admitted. No claim takes it before, and its sender waits for no other sender of the
-- group.
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from ready where blocked_on is not null
),
later as (
    insert into {schema}.timer_job ({carried}, due_at, options)
    select m.seq, m.now, {content_values:m}, m.due_at, m.options
    from msg m
    where m.due_at > m.now
    order by m.n
    on conflict (id) do nothing
    returning id, seq, created_at
)
select id, seq, created_at, owned, pg_current_xact_id()::text as xid, ctid, null::text as known from ready
union all
select id, seq, created_at, false, pg_current_xact_id()::text, null, null from later
union all
select job_id, null, null, false, pg_current_xact_id()::text, null, known from chosen where known <> 'same'::text
