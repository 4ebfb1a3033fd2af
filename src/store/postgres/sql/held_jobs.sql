-- Which of these jobs, of a node or of any (:node null), are locked by another transaction, and by which. Asked only after a statement about them
-- waited for a lock for too long. The other rows are locked too, but only for the moment that this statement takes.
-- The last locker of a row is in its xmax, where a single transaction has locked it. A transaction that was prepared has no process.
-- :node::int8, :ids::uuid[]
with free as materialized (
    select j.id from {schema}.job j where j.id = any (:ids::uuid[]) and (:node::int8 is null or j.lock_owner = :node) for update skip locked
),
held as materialized (
    select j.id, j.xmax as locker
    from {schema}.job j
    where j.id = any (:ids::uuid[]) and (:node::int8 is null or j.lock_owner = :node) and (j.id in (select id from free)) is not true
)
select h.id, l.pid, a.application_name, a.state, extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds, x.gid
from held h
left join pg_locks l on l.locktype = 'transactionid' and l.transactionid = h.locker and l.granted and l.mode = 'ExclusiveLock'
left join pg_stat_activity a on a.pid = l.pid
left join pg_prepared_xacts x on x.transaction = h.locker
