-- name: dead_rows
-- The dead rows of the tables that executors change all the time, as the server's statistics count them: nothing of the tables is read. The tables are named, because
-- `pg_class` has no index by schema, and a server may have a hundred thousand tables.
select t.relation, pg_stat_get_dead_tuples(to_regclass(t.name)::oid) as dead
from (values ('job'::text, '{schema}.job'::text),
           ('timer_job'::text, '{schema}.timer_job'::text),
           ('external_job'::text, '{schema}.external_job'::text),
           ('suspended_job'::text, '{schema}.suspended_job'::text),
           ('dead_letter_job'::text, '{schema}.dead_letter_job'::text),
           ('permit'::text, '{schema}.permit'::text),
           ('unblock'::text, '{schema}.unblock'::text),
           ('unique_key'::text, '{schema}.unique_key'::text),
           ('usage'::text, '{schema}.usage'::text),
           ('rate_log'::text, '{schema}.rate_log'::text),
           ('limit_lock'::text, '{schema}.limit_lock'::text),
           ('node'::text, '{schema}.node'::text)) as t (relation, name)
where to_regclass(t.name) is not null

-- name: xmin_holders
-- What keeps dead rows from being cleaned up: of each kind of holder the oldest, and in each row the number of sessions that hide theirs from this role,
-- which lacks `pg_read_all_stats`. A session holds by its snapshot, and by its own transaction number from its first write on, with which it may
-- wait for its client without a snapshot. Only sessions and prepared transactions of this database hold rows of it. Vacuums don't hold each other up. A
-- standby that sends feedback without a slot has a session without a transaction: like a slot, it has an age in transactions only.
-- One pass over views that have a row for each session, prepared transaction and slot.
with holders (kind, name, transactions, seconds) as (
    select case when a.backend_type = 'walsender'::text and a.xact_start is null then 'standby' else 'session' end,
           a.pid::text || ' of '::text || coalesce(a.usename::text, 'the server'::text),
           greatest(age(a.backend_xmin), age(a.backend_xid))::int8,
           extract(epoch from clock_timestamp() - a.xact_start)::float8
    from pg_catalog.pg_stat_activity a
    where a.pid <> pg_backend_pid()
      and (a.backend_xmin is not null or a.backend_xid is not null)
      and (a.datname is null or a.datname = current_database())
      and not exists (select from pg_catalog.pg_stat_progress_vacuum v where v.pid = a.pid)
    union all
    select 'prepared transaction', p.gid || ' of '::text || p.owner::text, age(p.transaction)::int8, extract(epoch from clock_timestamp() - p.prepared)::float8
    from pg_catalog.pg_prepared_xacts p
    where p.database = current_database()
    union all
    select 'replication slot', s.slot_name::text, age(s.xmin)::int8, null
    from pg_catalog.pg_replication_slots s
    where s.xmin is not null
),
hidden (n) as (
    select count(*)::int8 from pg_catalog.pg_stat_activity a where a.backend_type is null and a.usesysid is not null
)
select h.kind, h.name, h.transactions, h.seconds, x.n as hidden
from hidden x
left join (select distinct on (o.kind) o.kind, o.name, o.transactions, o.seconds
           from holders o
           order by o.kind, o.seconds desc nulls last, o.transactions desc) h on true
