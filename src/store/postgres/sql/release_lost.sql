-- Releases rows of a range of pages whose owner is dead or unknown; their attempt is spent. There is no index on the owner (it would cost
-- every claim its HOT update), so the table is walked (store/postgres/walk.rs), but only when a node has died.
-- A job whose process died while it ran is a suspect: it is blocked on the key 'alone' and runs by itself from then on (suspects.sql). A row that
-- was claimed so still has that key, and only such a death is a proof: nothing else ran in the process. Proofs are counted in the error record,
-- from the start of the job's present life: attempts rise until a retried dead letter starts again with none. A job with :quarantine_after proofs
-- is quarantined; null = never, and then there are no suspects either. A job in a group run is blocked on its group, and is no suspect until it
-- holds the group itself. A node that a person declared dead, or that is unknown here, says nothing about its jobs. Events and replies are
-- published and not run: they kill no process, and what publishes them claims no suspects.
-- Of the jobs, only those in :ids (null = all).
-- :limit::int8, :quarantine_after::int8, :from_location::tid, :to_location::tid
-- :ids::uuid[]
with lost as materialized (
    select j.ctid as tid
    from {schema}.job j
    where {briefly}
      and j.ctid >= :from_location and j.ctid < :to_location
      and j.lock_owner is not null
      and not exists (select from {schema}.node n where n.id = j.lock_owner and n.dead_at is null)
      and (:ids::uuid[] is null or j.id = any (:ids::uuid[]))
    limit :limit
    for update of j skip locked
),
noted as materialized (
    select j.ctid as tid, j.attempt >= j.max_attempts as spent,
           :quarantine_after is not null and n.evicted is false and j.queue not in ('jobwright.event', 'jobwright.reply')
               and coalesce(j.blocked_on, 'alone') = 'alone' as suspect,
           coalesce(j.blocked_on, '') = 'alone' and n.evicted is false as proof,
           {kept_errors:j}
               || jsonb_build_object('attempt', j.attempt, 'at', clock_timestamp(), 'node', j.lock_owner, 'error',
                      'owner lost: node ' || j.lock_owner::text || coalesce(' (' || n.name || ')', '')
                          || case when n.evicted then ' was declared dead by hand' else ' did not renew its lease' end
                          || case when j.blocked_on = 'alone' and n.evicted is false then ' while this job ran alone' else '' end) as all_errors
    from {schema}.job j
    left join {schema}.node n on n.id = j.lock_owner
    where j.ctid = any (array(select tid from lost))
),
judged as materialized (
    select tid, all_errors, suspect, spent or proof and proofs >= :quarantine_after is true as dies,
           case when proof and proofs >= :quarantine_after then 'quarantined: its process died ' || proofs::text || ' times while it ran alone' else 'owner lost' end as reason
    from noted
    cross join lateral (
        select count(*) as proofs
        from jsonb_array_elements(all_errors) with ordinality e (value, n)
        where e.value ->> 'error'::text like 'owner lost% while this job ran alone'
          and not exists (select from jsonb_array_elements(all_errors) with ordinality a (value, n),
                                      jsonb_array_elements(all_errors) with ordinality b (value, n)
                          where a.n >= e.n and b.n = a.n + 1 and b.value -> 'attempt'::text < a.value -> 'attempt'::text)
    ) counted
),
freed as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, errors = judged.all_errors,
        blocked_on = case when judged.suspect then 'alone' else j.blocked_on end, share = case when judged.suspect then '' else j.share end
    from judged
    where j.ctid = judged.tid and not judged.dies
    returning j.queue, j.blocked_on
),
-- A job with a key is blocked on it again. The lease under which it was claimed may be gone already, if this row was locked while that was
-- released.
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from freed where blocked_on <> 'alone'
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
