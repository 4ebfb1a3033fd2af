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
