-- Releases rows whose owner is dead or unknown; their attempt is spent. There is no index on the owner (it would cost every
-- claim its HOT update), so this walks the table: it runs only when a node has died.
with lost as materialized (
    select j.ctid as tid
    from {schema}.job j
    where j.lock_owner is not null
      and not exists (select from {schema}.node n where n.id = j.lock_owner and n.dead_at is null)
    limit $1
    for update of j skip locked
),
noted as materialized (
    select j.ctid as tid, j.attempt >= j.max_attempts as dies,
           case when jsonb_array_length(j.errors) >= {errors_kept} then j.errors - 0 else coalesce(j.errors, '[]') end
               || jsonb_build_object('attempt', j.attempt, 'at', clock_timestamp(), 'node', j.lock_owner, 'error',
                      'owner lost: node ' || j.lock_owner || coalesce(' (' || n.name || ')', '') || ' did not renew its lease') as all_errors
    from {schema}.job j
    left join {schema}.node n on n.id = j.lock_owner
    where j.ctid = any (array(select tid from lost))
),
freed as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, errors = noted.all_errors
    from noted
    where j.ctid = noted.tid and not noted.dies
    returning j.queue
),
taken as (
    delete from {schema}.job j using noted where j.ctid = noted.tid and noted.dies returning j.*, noted.all_errors
),
buried as (
    insert into {schema}.dead_letter_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, reason,
                                          payload, body, content_type, headers, errors, terms)
    select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, 'owner lost',
           payload, body, content_type, headers, all_errors, terms
    from taken
)
select (select count(*) from freed) as waiting, (select count(*) from taken) as dead
