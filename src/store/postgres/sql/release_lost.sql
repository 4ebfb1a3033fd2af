-- Releases rows of a range of pages whose owner is dead or unknown; their attempt is spent. There is no index on the owner (it would cost
-- every claim its HOT update), so the table is walked (store/postgres/walk.rs), but only when a node has died.
-- How often that happened to a job is counted in its error record, from the start of its present life: attempts rise until a retried dead
-- letter starts again with none. A job that died :quarantine_after times in it is quarantined.
-- :limit::int8, :quarantine_after::int8, :from_location::tid, :to_location::tid
with lost as materialized (
    select j.ctid as tid
    from {schema}.job j
    where j.ctid >= :from_location and j.ctid < :to_location
      and j.lock_owner is not null
      and not exists (select from {schema}.node n where n.id = j.lock_owner and n.dead_at is null)
    limit :limit
    for update of j skip locked
),
noted as materialized (
    select j.ctid as tid, j.attempt >= j.max_attempts as spent,
           {kept_errors:j}
               || jsonb_build_object('attempt', j.attempt, 'at', clock_timestamp(), 'node', j.lock_owner, 'error',
                      'owner lost: node ' || j.lock_owner::text || coalesce(' (' || n.name || ')', '')
                          || case when n.evicted then ' was declared dead by hand' else ' did not renew its lease' end) as all_errors
    from {schema}.job j
    left join {schema}.node n on n.id = j.lock_owner
    where j.ctid = any (array(select tid from lost))
),
judged as materialized (
    select tid, all_errors, spent or deaths >= :quarantine_after is true as dies,
           case when deaths >= :quarantine_after then 'quarantined: its process died ' || deaths::text || ' times while it ran' else 'owner lost' end as reason
    from noted
    cross join lateral (
        select count(*) as deaths
        from jsonb_array_elements(all_errors) with ordinality e (value, n)
        where e.value ->> 'error'::text like 'owner lost%'
          and not exists (select from jsonb_array_elements(all_errors) with ordinality a (value, n),
                                      jsonb_array_elements(all_errors) with ordinality b (value, n)
                          where a.n >= e.n and b.n = a.n + 1 and b.value -> 'attempt'::text < a.value -> 'attempt'::text)
    ) counted
),
freed as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, errors = judged.all_errors
    from judged
    where j.ctid = judged.tid and not judged.dies
    returning j.queue, j.blocked_on
),
-- A job with a key is blocked on it again. The lease under which it was claimed may be gone already, if this row was locked while that was
-- released.
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from freed where blocked_on is not null
),
taken as (
    delete from {schema}.job j using judged where j.ctid = judged.tid and judged.dies
    returning j.*, judged.all_errors, judged.reason
),
dead_lettered as (
    insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
    select {carried}, version, attempt, reason, all_errors, options
    from taken
    -- One row must not keep the others from being released.
    on conflict (id) do nothing
)
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
--{failed}     select j.id, j.seq, j.kind, j.queue, case when g.dies then 'dead' else 'lost' end, j.attempt, j.created_at, j.claimed_at,
--{failed}            j.lock_owner, j.options ->> 'tenant'::text, g.all_errors -> -1 ->> 'error'::text
--{failed}     from {schema}.job j
--{failed}     join judged g on j.ctid = g.tid
--{failed} )
select (select count(*) from freed) as waiting, (select count(*) from taken) as dead
