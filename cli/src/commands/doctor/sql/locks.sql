-- Sessions that others wait for to get at tables of this schema, with the number of those that have waited for longer than $2 seconds, and for how long. A
-- waiter is known by a lock that it has or wants on such a table; what it waits for may be a row, which names no table. Servers before 14 do not tell since when
-- a session waits: there it is the age of its statement. Only the first in a line of blocked sessions are listed; 0 stands for prepared transactions.
-- A wait for the end of another transaction's snapshot (`create index concurrently`) keeps nobody else waiting.
with own as (
    select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = $1
),
waits as (
    select l.pid, pg_catalog.pg_blocking_pids(l.pid) as behind,
           extract(epoch from clock_timestamp() - coalesce((to_jsonb(l) ->> 'waitstart')::timestamptz, a.query_start))::float8 as seconds
    from pg_catalog.pg_locks l
    join pg_catalog.pg_stat_activity a on a.pid = l.pid
    where not l.granted and l.locktype <> 'virtualxid'
      and exists (
          select from pg_catalog.pg_locks t
          where t.pid = l.pid and t.relation in (select oid from own)
            and t.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
      )
),
blockers as (
    select b.pid, count(distinct w.pid) as waiting, max(w.seconds) as longest
    from waits w
    cross join lateral unnest(w.behind) b (pid)
    where w.seconds > $2
    group by b.pid
)
select b.pid, b.waiting, b.longest, a.usename::text as role, a.application_name as application, a.state,
       extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds
from blockers b
left join pg_catalog.pg_stat_activity a on a.pid = b.pid
where b.pid not in (select pid from waits)
order by b.waiting desc, b.pid
limit 5
