-- Outcomes of external workers other than success, in one statement; no id is given twice. Like settle.sql, with two differences: the row
-- is in another table, so a release moves it too, and no node ran it (0 in its record).
-- :ids::uuid[], :versions::int8[], :verdicts::text[], :delays_us::int8[], :error_texts::text[], :details::text[]
with taken as (
    delete from {schema}.external_job e
    where {briefly}
      and e.id = any (:ids::uuid[])
      and e.version = (:versions::int8[])[array_position(:ids::uuid[], e.id)]
    returning e.*, array_position(:ids::uuid[], e.id) as n
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
                    || jsonb_strip_nulls(jsonb_build_object('attempt', o.attempt, 'at', clock_timestamp(), 'node', 0,
                                                            'error', o.error, 'detail', o.detail))
           end as all_errors
    from outcome o
),
released as (
    insert into {schema}.job ({carried}, version, attempt, errors, options, admitted)
    select {carried}, version & 2147483647::int8, greatest(attempt - 1, 0), all_errors, options, admitted
    from judged
    where verdict = 'release'
    on conflict (id) do nothing
),
again as (
    insert into {schema}.timer_job ({carried}, version, due_at, attempt, errors, options)
    select {carried}, version & 2147483647::int8, clock_timestamp() + delay_us::float8 * interval '1 microsecond',
           case verdict when 'snooze' then greatest(attempt - 1, 0) else attempt end, all_errors, options
    from judged
    where not dies and verdict in ('retry', 'snooze')
    on conflict (id) do nothing
),
dead_lettered as (
    insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
    select {carried}, version & 2147483647::int8, attempt, coalesce(error, 'attempts exhausted'), all_errors, options
    from judged
    where dies
    on conflict (id) do nothing
)
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, outcome, attempt, created_at, handed_at, 0, options ->> 'tenant'::text, error
--{failed}     from (select j.*, case when dies then 'dead' else case verdict when 'retry' then 'failed' when 'cancel' then 'cancelled' end end as outcome
--{failed}           from judged j) ended
--{failed}     where outcome in ({kept})
--{failed} )
select id from taken
