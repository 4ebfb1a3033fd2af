-- The general flush: delays, and ids given by the sender.
-- decide_ids decides whether a given id is new: it waits for other senders of the same id.
-- The answer names the rows that were written, and the ids that are known as those of other jobs.
-- {content_arrays}, :delays_us::int8[], :due_times::timestamptz[], :given::bool[], :holds_us::int8[], :options::jsonb[]
with {given_ids},
fresh as (
    select m.*, coalesce(m.at, moment.now + m.delay_us::float8 * interval '1 microsecond') as due_at, moment.now as now,
           -- A time to live begins with the flush, by this server's clock.
           case when m.asked ? 'ttl'::text
                then m.asked || jsonb_build_object('expires', (extract(epoch from moment.now)::float8 * 1000000::float8)::int8 + (m.asked ->> 'ttl'::text)::int8)
                else m.asked
           end as options
    from unnest({content_arrays}, :delays_us::int8[], :due_times::timestamptz[], :given::bool[], :holds_us::int8[], :options::jsonb[])
             with ordinality as m({content}, delay_us, at, given, hold_us, asked, n)
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
select id, seq, created_at, false as owned, pg_current_xact_id()::text as xid, null::tid as ctid, null::text as known from ready
union all
select id, seq, created_at, false, pg_current_xact_id()::text, null, null from later
union all
select job_id, null, null, false, pg_current_xact_id()::text, null, known from chosen where known <> 'same'::text
