-- Locks the schedules that are unchanged since they were read, skipping those that another node has locked, and says whether the previous
-- job is still alive. Runs in the transaction that sends the jobs.
-- The lock reads the current state of a row, so the version is compared after it. The occurrence is compared too: a schedule that was
-- deleted and put again begins with the same versions.
-- Scalar subselects and not `exists`: PostgreSQL 13 may hash all ids of a table for that.
-- :names::text[], :seen::int8[], :previous_jobs::uuid[], :due_times::timestamptz[]
with asked as materialized (
    select a.name, a.version, a.previous, a.due
    from unnest(:names::text[], :seen::int8[], :previous_jobs::uuid[], :due_times::timestamptz[]) as a(name, version, previous, due)
),
mine as materialized (
    select name, version, next_at
    from {schema}.schedule
    where name = any (:names)
    for update skip locked
)
select a.name,
       a.previous is not null
       and ((select t.id from {schema}.job t where t.id = a.previous limit 1) is not null
            or (select t.id from {schema}.timer_job t where t.id = a.previous limit 1) is not null
            or (select t.id from {schema}.suspended_job t where t.id = a.previous limit 1) is not null
            or (select t.id from {schema}.external_job t where t.id = a.previous limit 1) is not null) as alive
from asked a
where exists (select from mine m where m.name = a.name and m.version = a.version and m.next_at = a.due)
