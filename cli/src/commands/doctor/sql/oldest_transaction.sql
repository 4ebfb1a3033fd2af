-- The oldest snapshot, which keeps dead rows from being cleaned up. A role without `pg_read_all_stats` sees only its own, so
-- `hidden` counts the connections that show nothing to this role.
select coalesce(max(age(backend_xmin)), 0)::int8 as age,
       coalesce(max(extract(epoch from clock_timestamp() - xact_start)) filter (where backend_xmin is not null), 0)::float8 as seconds,
       count(*) filter (where state is null and backend_type = 'client backend') as hidden
from pg_stat_activity
where pid <> pg_backend_pid()
