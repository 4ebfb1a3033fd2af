-- All outcomes but success, in one statement, each only if this claim still owns the row. The ids are
-- named twice so that the rows are found by their index in any plan (see complete.sql). The newest errors are kept.
with input as materialized (
    select *
    from unnest($2::uuid[], $3::int8[], $4::text[], $5::int8[], $6::text[], $7::text[])
             as i(id, version, verdict, delay_us, error, detail)
),
released as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, attempt = greatest(j.attempt - 1, 0),
        errors = case when i.error is null then j.errors
                      else case when jsonb_array_length(j.errors) >= {errors_kept} then j.errors - 0 else coalesce(j.errors, '[]') end
                          || jsonb_strip_nulls(jsonb_build_object('attempt', j.attempt, 'at', clock_timestamp(), 'node', $1,
                                                                  'error', i.error, 'detail', i.detail))
                 end
    from input i
    where i.verdict = 'release' and j.id = any ($2::uuid[]) and j.id = i.id and j.version = i.version and j.lock_owner = $1
    returning j.id
),
taken as (
    delete from {schema}.job j
    using input i
    where i.verdict <> 'release' and j.id = any ($2::uuid[]) and j.id = i.id and j.version = i.version and j.lock_owner = $1
    returning j.*, i.verdict, i.delay_us, i.error, i.detail
),
judged as (
    select t.*,
           t.verdict = 'dead' or t.verdict = 'retry' and t.attempt >= t.max_attempts as dies,
           case when t.error is null then t.errors
                else case when jsonb_array_length(t.errors) >= {errors_kept} then t.errors - 0 else coalesce(t.errors, '[]') end
                    || jsonb_strip_nulls(jsonb_build_object('attempt', t.attempt, 'at', clock_timestamp(), 'node', $1,
                                                            'error', t.error, 'detail', t.detail))
           end as all_errors
    from taken t
),
again as (
    insert into {schema}.timer_job (seq, version, due_at, created_at, id, attempt, max_attempts, rank, kind, queue,
                                    payload, body, content_type, headers, errors)
    select seq, version, clock_timestamp() + delay_us * interval '1 microsecond', created_at, id,
           case verdict when 'snooze' then greatest(attempt - 1, 0) else attempt end, max_attempts, rank, kind, queue,
           payload, body, content_type, headers, all_errors
    from judged
    where not dies and verdict in ('retry', 'snooze')
),
buried as (
    insert into {schema}.dead_letter_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, reason,
                                          payload, body, content_type, headers, errors)
    select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, coalesce(error, 'attempts exhausted'),
           payload, body, content_type, headers, all_errors
    from judged
    where dies
)
select id from taken
union all
select id from released
