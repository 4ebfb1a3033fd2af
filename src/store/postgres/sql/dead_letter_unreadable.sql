-- Makes dead letters of waiting rows that can't be read, each only in the state in which it was examined. Their content is moved without
-- being read. A job that was sent since with the same id has the same version, but a `seq` of its own. This counts as an attempt, as any
-- claim does.
with gone as (
    delete from {schema}.job j
    where j.id = any ($1::uuid[])
      and j.lock_owner is null
      and j.version = ($2::int8[])[array_position($1::uuid[], j.id)]
      and j.seq = ($5::int8[])[array_position($1::uuid[], j.id)]
    returning j.*, ($3::text[])[array_position($1::uuid[], j.id)] as why
),
dead_lettered as (
    insert into {schema}.dead_letter_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, reason,
                                          payload, body, content_type, headers, errors, options)
    select seq, version, created_at, id, attempt + 1, max_attempts, rank, kind, queue, why, payload, body, content_type, headers,
           case when jsonb_array_length(errors) >= {errors_kept} then errors - 0 else coalesce(errors, '[]') end
               || jsonb_build_object('attempt', attempt + 1, 'at', clock_timestamp(), 'node', $4::int8, 'error', why),
           options
    from gone
    on conflict (id) do nothing
)
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, 'dead', attempt + 1, created_at, $4::int8, options ->> 'tenant', why from gone
--{failed} )
select id from gone
