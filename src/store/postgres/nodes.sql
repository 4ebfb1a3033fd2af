-- name: register_node
-- A new node session. The process that registers draws its id at random: after a failover or a restore, a sequence that lost its last
-- values would give the same number to two processes. If the id exists, nothing is inserted, and the caller draws another one.
-- :name::text, :host::text, :pid::int8, :lease_us::int8, :node::int8, :serves::text
insert into {schema}.node (id, name, host, pid, lease, expires_at, serves)
values (:node, :name, :host, :pid, :lease_us::float8 * interval '1 microsecond', clock_timestamp() + :lease_us::float8 * interval '1 microsecond',
        :serves::text::jsonb)
on conflict (id) do nothing
returning id

-- name: heartbeat
-- Counts one more heartbeat. A node that was declared dead stays dead.
-- :node::int8
update {schema}.node set heartbeats = heartbeats + 1, expires_at = clock_timestamp() + lease where id = :node and dead_at is null returning id

-- name: server
-- Which server answers, on which of its histories (timelines), and since when it runs. A standby that is promoted, or a backup that is
-- restored, begins a new history.
select system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) as history, pg_postmaster_start_time() as started
from pg_control_system()

-- name: heartbeat_and_server
-- `heartbeat` and `server` in one transaction: an idle node does little else. A role without the right to ask for the server uses the two statements.
-- :node::int8
with renewed as (
    update {schema}.node set heartbeats = heartbeats + 1, expires_at = clock_timestamp() + lease where id = :node and dead_at is null returning id
)
select exists (select from renewed) as renewed,
       system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) as history, pg_postmaster_start_time() as started
from pg_control_system()

-- name: retire_node
-- Declares a node dead for its own process, when that stops, or has fenced itself and lives on. What it still owns is released next, at no
-- attempt.
-- :node::int8
update {schema}.node n
set dead_at = coalesce(n.dead_at, moment.now), expires_at = least(n.expires_at, moment.now)
from (select clock_timestamp() as now) moment
where n.id = :node

-- name: wait_for_node
-- Waits until no claim or commit of a node is in flight, for a second at a time: any role may hold this lock, and then the caller looks whether the
-- node is idle (`idle_of`).
-- :node::int8
select set_config('lock_timeout', '1000', true), pg_advisory_xact_lock({schema}.node_locks(), :node::int8::integer)

-- name: report_broker
-- Shown in the status; nothing depends on it.
-- :node::int8, :broker::text
update {schema}.node set broker = :broker where id = :node

-- name: report_left_alone
-- Shown to people; nothing depends on it.
-- :node::int8, :kinds::text
update {schema}.node set left_alone = :kinds::text::jsonb where id = :node

-- name: report_failing
-- Shown to people; nothing depends on it.
-- :node::int8, :tasks::text
update {schema}.node set failing = :tasks::text::jsonb where id = :node

-- name: takes_writes
-- Changes no row, but requests the locks of statements that do. While a conflicting lock is held (an index is built, a table rewritten), it
-- waits like the statements that store messages from the broker, and fails like them.
with submission as (delete from {schema}.submission where false),
     job as (delete from {schema}.job where false),
     timer as (delete from {schema}.timer_job where false),
     unblock as (delete from {schema}.unblock where false),
     external as (delete from {schema}.external_job where false)
select

-- name: node_heartbeats
-- What a monitor compares with its earlier observation. No clock is used: a clock that is changed would make all nodes look dead, or none.
select id, heartbeats, (extract(epoch from lease)::float8 * 1000000::float8)::int8 as lease_us, dead_at is not null as dead from {schema}.node

-- name: watched_heartbeats
-- The same of the nodes that :node watches. The living nodes with the lowest ids watch all nodes, and all nodes watch these: if every node read the
-- heartbeats of all, the cost would grow with the square of their number. Ids are drawn at random, so these nodes are spread over the machines. Where
-- all of them die together, the others find that first, and then the next ones in order watch.
-- :node::int8
with {watched}
select id, heartbeats, lease_us, dead from watched

-- name: declare_dead
-- Declares silent nodes dead, if they still are: their heartbeat is the one that the monitor saw. This waits for nothing: a locked row is
-- skipped and checked again next time. Claims in flight are not waited for either. What they take is released as long as the node is not
-- forgotten, and forgetting it waits for them (`forget_nodes`).
-- :nodes::int8[], :heartbeats::int8[]
with silent as materialized (
    select n.id
    from {schema}.node n
    join unnest(:nodes::int8[], :heartbeats::int8[]) as seen (id, heartbeats) on n.id = seen.id and n.heartbeats = seen.heartbeats
    where n.dead_at is null
    for no key update of n skip locked
)
update {schema}.node n set dead_at = clock_timestamp() from silent where n.id = silent.id returning n.id

-- name: release_lost
-- Releases rows of a range of pages whose owner is dead or unknown; their attempt is spent. There is no index on the owner (it would cost
-- every claim its HOT update), so the table is walked (store/postgres/walk.rs), but only when a node has died.
-- A job whose process died while it ran is a suspect: it is blocked on the key 'alone' and runs by itself from then on (`suspects`). A row that
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

-- name: lost
-- The rows that `release_lost` would release in a range of pages, without their content: used to find the one that it can't release.
-- :limit::int8, :from_location::tid, :to_location::tid
select j.id, j.version::int8 as version, j.seq, j.lock_owner::int8 as owner
from {schema}.job j
where j.ctid >= :from_location and j.ctid < :to_location
  and j.lock_owner is not null
  and not exists (select from {schema}.node n where n.id = j.lock_owner and n.dead_at is null)
limit :limit

-- name: lost_terminating
-- Removes handlers of cancelled jobs whose node is dead or unknown, because nothing else can report their end. Also releases the groups
-- that such nodes held, once they own no job of them any more. If a lock keeps a row from being released, it may be its handler's, whose
-- commit is still in flight. The next job of the group must not begin before that is decided, and a row whose removal is not committed is
-- still seen here.
with ended as (
    delete from {schema}.terminating_handler e
    where e.node is not null and not exists (select from {schema}.node n where n.id = e.node and n.dead_at is null)
    returning holder
),
leases as (
    delete from {schema}.permit s
    where s.node is not null and not exists (select from {schema}.node n where n.id = s.node and n.dead_at is null)
      -- Looks up the key of each of the lease's groups: a join would read all blocked rows.
      and (select j.id
           from {schema}.permit g
           cross join lateral (select id from {schema}.job where blocked_on = g.key and lock_owner = g.node limit 1) j
           where g.job_id = s.job_id and g.key like 'g:%'
           limit 1) is null
    returning job_id, key
),
-- Counts of nodes that are not even known any more (after a restore) are dropped. Other counts go with their node (`forget_nodes`).
usages as (
    delete from {schema}.usage u where not exists (select from {schema}.node n where n.id = u.node) returning key
),
unblocked as (
    insert into {schema}.unblock (key) select key from leases union all select key from usages
)
select holder from ended union all select job_id from leases

-- name: owners
-- Which of these nodes own rows in a range of pages.
-- :nodes::int8[], :from_location::tid, :to_location::tid
select distinct j.lock_owner::int8 from {schema}.job j where j.ctid >= :from_location and j.ctid < :to_location and j.lock_owner = any (:nodes::int8[])

-- name: idle_nodes
-- Dead nodes that can own nothing more: no claim or commit of theirs is in flight, and a later one finds them dead. Each node's lock is
-- tried and not waited for. Runs before a walk that looks for what they own.
select id from {schema}.node where dead_at is not null and {schema}.node_is_idle(id)

-- name: idle_of
-- Like `idle_nodes`, for live nodes: those of the given ones that have nothing in flight right now.
-- :nodes::int8[]
select id from {schema}.node where id = any (:nodes::int8[]) and {schema}.node_is_idle(id)

-- name: forget_nodes
-- Removes dead nodes that own nothing, as a walk found after they had become idle (`idle_nodes`). Their counts under limits that claims
-- count go with them, and not before: a row that could not be released may have been locked by its handler, whose commit was in flight.
-- :nodes::int8[]
with gone as (
    delete from {schema}.node where id = any (:nodes::int8[]) and dead_at is not null returning id
),
freed as (
    delete from {schema}.usage where node in (select id from gone) returning key
)
insert into {schema}.unblock (key) select distinct key from freed
