-- Commits that are on this server's disk and wait for a synchronous standby, with the longest wait in seconds, and the standbys that are asked for. A role that
-- may not look at other sessions sees its own only.
select count(*) as waiting,
       coalesce(max(extract(epoch from clock_timestamp() - a.state_change)), 0)::float8 as longest,
       current_setting('synchronous_standby_names') as standbys
from pg_catalog.pg_stat_activity a
where a.wait_event = 'SyncRep' and a.datname = current_database()
  and a.state_change < clock_timestamp() - interval '1 second'
