-- Releases jobs whose external workers did not answer in time, the longest overdue first; their attempt is spent. Also releases what
-- cancelled jobs of such workers held.
-- Uses statement_timestamp() and not clock_timestamp(), because only a stable value can be an index condition.
-- If some of them made it fail, it is run for the others (:ids).
-- :limit::int8, :error::text, :reason::text, :ids::uuid[]
with late as (
    delete from {schema}.external_job
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.external_job
        where lease_until <= statement_timestamp() and (:ids::uuid[] is null or id = any (:ids))
        order by lease_until
        limit :limit
        for update skip locked
    ))
    returning *
),
over as (
    delete from {schema}.terminating_handler
    where ctid = any (array(
        select ctid from {schema}.terminating_handler where until <= statement_timestamp() limit :limit for update skip locked
    ))
    returning holder
),
noted as materialized (
    select l.*, l.attempt >= l.max_attempts as dies,
           {kept_errors:l}
               || jsonb_build_object('attempt', l.attempt, 'at', clock_timestamp(), 'node', 0, 'error', :error::text) as all_errors
    from late l
),
freed as (
    insert into {schema}.job ({carried}, version, attempt, errors, options, admitted)
    select {carried}, version & 2147483647::int8, attempt, all_errors, options, admitted
    from noted
    where not dies
    on conflict (id) do nothing
),
dead_lettered as (
    insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
    select {carried}, version & 2147483647::int8, attempt, :reason, all_errors, options
    from noted
    where dies
    on conflict (id) do nothing
)
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, case when dies then 'dead' else 'lost' end, attempt, created_at, handed_at, 0, options ->> 'tenant'::text, :error
--{failed}     from noted
--{failed} )
select count(*) filter (where not dies) as waiting, count(*) filter (where dies) as dead, (select count(*) from over) as ended from noted
