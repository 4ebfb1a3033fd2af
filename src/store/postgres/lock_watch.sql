-- name: lock_holders
-- Which transactions statements wait for, asked on another connection while they wait. Their text begins with their name (:marks).
-- A transaction that was prepared has no process; its locks show which it is. Others in the queue for the same lock are left out, if they are
-- statements of these names.
-- :marks::text[]
with waits as materialized (
    select a.pid
    from pg_stat_activity a
    where a.datname = current_database() and a.wait_event_type = 'Lock'
      and exists (select from unnest(:marks::text[]) m(mark) where starts_with(a.query, m.mark))
),
holders as materialized (
    select distinct w.pid as waiter, h.pid
    from waits w cross join lateral unnest(pg_blocking_pids(w.pid)) h(pid)
    where (h.pid in (select pid from waits)) is not true
)
select distinct h.pid, a.application_name, a.state, extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds, x.gid
from holders h
left join pg_stat_activity a on a.pid = h.pid
left join lateral (
    select p.gid
    from pg_prepared_xacts p
    where h.pid = 0 and p.database = current_database()
      and exists (
          select from pg_locks wanted
          where wanted.pid = h.waiter and not wanted.granted
            and (wanted.transactionid = p.transaction
                 or exists (select from pg_locks held
                            where held.granted and held.virtualtransaction = '-1/' || p.transaction::text
                              and held.locktype = wanted.locktype and held.relation is not distinct from wanted.relation
                              and held.page is not distinct from wanted.page and held.tuple is not distinct from wanted.tuple))
      )
) x on true
limit 5
