-- What keeps dead rows from being cleaned up for the longest time: the snapshot of a session, a prepared transaction, which has no session any more, or a
-- replication slot. A slot has an age in transactions only. `old` says whether it is too old.
-- A role without `pg_read_all_stats` sees of other roles' sessions only that they are there: `hidden` counts those.
with holders (kind, name, age, seconds, old) as (
    select 'session', pid::text || ' of ' || coalesce(usename::text, 'the server'), age(backend_xmin)::int8,
           extract(epoch from clock_timestamp() - xact_start)::float8, coalesce(clock_timestamp() - xact_start > interval '5 minutes', false)
    from pg_stat_activity
    where pid <> pg_backend_pid() and backend_xmin is not null
    union all
    select 'prepared transaction', gid || ' of ' || owner::text || ' in ' || database::text, age(transaction)::int8,
           extract(epoch from clock_timestamp() - prepared)::float8, clock_timestamp() - prepared > interval '5 minutes'
    from pg_prepared_xacts
    union all
    select 'replication slot', slot_name::text, age(xmin)::int8, null, age(xmin) > 1000000
    from pg_replication_slots
    where xmin is not null
),
hidden (n) as (
    select count(*) from pg_stat_activity where backend_type is null and usesysid is not null
)
select h.kind, h.name, h.age, h.seconds, coalesce(h.old, false) as old, hidden.n as hidden
from hidden left join (select * from holders order by old desc, seconds desc nulls last, age desc limit 1) h on true
