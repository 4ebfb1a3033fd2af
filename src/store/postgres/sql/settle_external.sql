-- Outcomes of external workers other than success, in one statement; no id is given twice. Like settle.sql, with two differences: the row
-- is in another table, so a release moves it too, and no node ran it (0 in its record).
with taken as (
    delete from {schema}.external_job e
    where e.id = any ($1::uuid[])
      and e.version = ($2::int8[])[array_position($1::uuid[], e.id)]
    returning e.*, array_position($1::uuid[], e.id) as n
),
outcome as materialized (
    select t.*, ($3::text[])[t.n] as verdict, ($4::int8[])[t.n] as delay_us, ($5::text[])[t.n] as error, ($6::text[])[t.n] as detail
    from taken t
),
judged as materialized (
    select o.*,
           o.verdict = 'dead' or o.verdict = 'retry' and o.attempt >= o.max_attempts as dies,
           case when o.error is null then o.errors
                else case when jsonb_array_length(o.errors) >= {errors_kept} then o.errors - 0 else coalesce(o.errors, '[]') end
                    || jsonb_strip_nulls(jsonb_build_object('attempt', o.attempt, 'at', clock_timestamp(), 'node', 0,
                                                            'error', o.error, 'detail', o.detail))
           end as all_errors
    from outcome o
),
released as (
    insert into {schema}.job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                              payload, body, content_type, headers, errors, options, admitted)
    select seq, version & 2147483647, created_at, id, greatest(attempt - 1, 0), max_attempts, rank, kind, queue,
           payload, body, content_type, headers, all_errors, options, admitted
    from judged
    where verdict = 'release'
    on conflict (id) do nothing
),
again as (
    insert into {schema}.timer_job (seq, version, due_at, created_at, id, attempt, max_attempts, rank, kind, queue,
                                    payload, body, content_type, headers, errors, options)
    select seq, version & 2147483647, clock_timestamp() + delay_us * interval '1 microsecond', created_at, id,
           case verdict when 'snooze' then greatest(attempt - 1, 0) else attempt end, max_attempts, rank, kind, queue,
           payload, body, content_type, headers, all_errors, options
    from judged
    where not dies and verdict in ('retry', 'snooze')
    on conflict (id) do nothing
),
dead_lettered as (
    insert into {schema}.dead_letter_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, reason,
                                          payload, body, content_type, headers, errors, options)
    select seq, version & 2147483647, created_at, id, attempt, max_attempts, rank, kind, queue, coalesce(error, 'attempts exhausted'),
           payload, body, content_type, headers, all_errors, options
    from judged
    where dies
    on conflict (id) do nothing
)
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, outcome, attempt, created_at, handed_at, 0, options ->> 'tenant', error
--{failed}     from (select j.*, case when dies then 'dead' else case verdict when 'retry' then 'failed' when 'cancel' then 'cancelled' end end as outcome
--{failed}           from judged j) ended
--{failed}     where outcome in ({kept})
--{failed} )
select id from taken
