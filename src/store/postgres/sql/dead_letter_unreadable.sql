-- Makes dead letters of waiting rows that can't be read, each only in the state in which it was examined. Their content is moved without
-- being read. A job that was sent since with the same id has the same version, but a `seq` of its own. This counts as an attempt, as any
-- claim does.
-- :ids::uuid[], :versions::int8[], :reasons::text[], :node::int8, :seqs::int8[]
with gone as (
    delete from {schema}.job j
    where j.id = any (:ids::uuid[])
      and j.lock_owner is null
      and j.version = (:versions::int8[])[array_position(:ids::uuid[], j.id)]
      and j.seq = (:seqs::int8[])[array_position(:ids::uuid[], j.id)]
    returning j.*, (:reasons::text[])[array_position(:ids::uuid[], j.id)] as why
),
dead_lettered as (
    insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
    select {carried}, version, attempt + 1, why,
           case when jsonb_array_length(errors) >= {errors_kept} then errors - 0 else coalesce(errors, '[]') end
               || jsonb_build_object('attempt', attempt + 1, 'at', clock_timestamp(), 'node', :node::int8, 'error', why),
           options
    from gone
    on conflict (id) do nothing
)
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, 'dead', attempt + 1, created_at, :node::int8, options ->> 'tenant'::text, why from gone
--{failed} )
select id from gone
