-- name: settle
-- All outcomes but success and release, in one statement, each only if this claim still owns the row. No id is given twice.
-- An existing row of the same id in the target table stands for the job. A move never fails because of it, or the outcome could never be
-- recorded.
-- No join: according to the statistics next to nothing is owned, so the planner would compare each row with the whole batch (0.28 s for
-- 1,000). The ids find the rows, through their index and in no other way, and their position in the array finds the rest.
-- :node::int8, :ids::uuid[], :versions::int8[], :verdicts::text[], :delays_us::int8[], :error_texts::text[], :details::text[]
with taken as (
    delete from {schema}.job j
    where {briefly}
      and j.id = any (:ids::uuid[])
      and j.lock_owner = :node
      and j.version = (:versions::int8[])[array_position(:ids::uuid[], j.id)]
    returning j.*, array_position(:ids::uuid[], j.id) as n
),
outcome as materialized (
    select t.*, (:verdicts::text[])[t.n] as verdict, (:delays_us::int8[])[t.n] as delay_us, (:error_texts::text[])[t.n] as error,
           (:details::text[])[t.n] as detail
    from taken t
),
judged as materialized (
    select o.*,
           o.verdict = 'dead' or o.verdict = 'retry' and o.attempt >= o.max_attempts as dies,
           case when o.error is null then o.errors
                else {kept_errors:o}
                    || jsonb_strip_nulls(jsonb_build_object('attempt', o.attempt, 'at', clock_timestamp(), 'node', :node,
                                                            'error', o.error, 'detail', o.detail))
           end as all_errors
    from outcome o
),
again as (
    insert into {schema}.timer_job ({carried}, version, due_at, attempt, errors, options)
    select {carried}, version, clock_timestamp() + delay_us::float8 * interval '1 microsecond',
           case verdict when 'snooze' then greatest(attempt - 1, 0) else attempt end, all_errors, options
    from judged
    where not dies and verdict in ('retry', 'snooze')
    on conflict (id) do nothing
),
dead_lettered as (
    insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
    select {carried}, version, attempt, coalesce(error, 'attempts exhausted'), all_errors, options
    from judged
    where dies
    on conflict (id) do nothing
)
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, outcome, attempt, created_at, claimed_at, :node, options ->> 'tenant'::text, error
--{failed}     from (select j.*, case when dies then 'dead' else case verdict when 'retry' then 'failed' when 'cancel' then 'cancelled' end end as outcome
--{failed}           from judged j) ended
--{failed}     where outcome in ({kept})
--{failed} )
select id from taken

-- name: release
-- Makes jobs wait again, with their attempt given back, each only if this claim still owns the row. No id is given twice. See `settle`
-- for its shape.
-- A job with a key is blocked on it again, and the key is unblocked: the lease under which the job was claimed may be gone already.
-- A suspect (`suspects`) waits for no key.
-- :node::int8, :ids::uuid[], :versions::int8[], :error_texts::text[], :details::text[]
with back as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, attempt = greatest(j.attempt - 1, 0),
        errors = case when (:error_texts::text[])[array_position(:ids::uuid[], j.id)] is null then j.errors
                      else {kept_errors:j}
                          || jsonb_strip_nulls(jsonb_build_object('attempt', j.attempt, 'at', clock_timestamp(), 'node', :node,
                                                                  'error', (:error_texts::text[])[array_position(:ids::uuid[], j.id)],
                                                                  'detail', (:details::text[])[array_position(:ids::uuid[], j.id)]))
                 end
    where {briefly}
      and j.id = any (:ids::uuid[])
      and j.lock_owner = :node
      and j.version = (:versions::int8[])[array_position(:ids::uuid[], j.id)]
    returning j.id, j.blocked_on
),
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from back where blocked_on <> 'alone'
)
select id from back

-- name: held_jobs
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
