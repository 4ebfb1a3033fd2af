-- name: claim
-- Claims the best waiting rows of a queue.
-- `me` locks the node, which can't be forgotten before this is committed, so every claimed row has a known owner. A dead or unknown node is
-- an error and not an empty answer: a node that never learnt of it would claim nothing forever.
-- A subselect picks and locks the rows, which are found again by ctid: one pass over the index, and no join that could take more rows than
-- the limit. A ctid can't go stale in between, because the lock is already held.
-- Rows hidden for a delivery are left to it, unless nothing is being delivered now (:include_hidden), or the row is hidden for longer
-- than anything asks for: then a clock that ran ahead wrote that time (MAX_HIDDEN).
-- Paused, limited and expired jobs are passed over (the fragment `may_start`).
-- The queue is scanned in ranges (store/postgres/range.rs), best rank first. Each range is a separate scan, from the cursor of its rank to
-- the next rank that has a cursor. Both ends are index conditions, so rows before a cursor are not read. The outer limit ends the scans: a
-- row beyond it is not even locked.
-- A scan for passed-over rows is one range that ends where claims have been.
-- A range without a start begins at the shared cursor (store/postgres/shared_cursor.rs): the value of the sequence :cursor_register, if
-- it belongs to these rows (:cursor_tag, above the 48 bits of a row number). `place` reads it and advances it by :cursor_span before a
-- row is read, so that a concurrent claim begins behind this one. It never passes the last number given out, because jobs sent later
-- must not lie before it. With OFFSET 0 each sequence is read once.
-- The answer says where the shared cursor was, so that the claimer knows which rows were reserved for it. Only rows of its rank
-- (:cursor_rank) beyond the claimer's own earlier range were found there. For other rows the cursor is not read, because reading
-- advances it.
-- The number of the claim (:claim) is the claimer's own, never derived from the row. A row can be put back to an earlier state (by a
-- failover, a restore, or an id that is used again), and would then count to the same number twice.
-- :node::int8, :queue::text, :after_ranks::int2[], :after_seqs::int8[], :last_ranks::int2[], :kinds::text[], :limit::int8,
-- :include_hidden::bool, :cursor_register::text, :cursor_tag::int8, :own_end::int8, :cursor_span::int8, :last_seqs::int8[],
-- :cursor_rank::int2, :claim::int4
with me as materialized (
    select coalesce({schema}.hold_node(:node), {schema}.refuse_node(:node)) as id
),
shared_cursor as materialized (
    select place.start, setval(:cursor_register::text::regclass, (:cursor_tag::int8 << 48) | least(place.start + :cursor_span::int8, place.newest))
    from (
        select least(greatest(:own_end::int8, case when held >> 48 = :cursor_tag then held & 281474976710655 end), newest) as start, newest
        from (
            select pg_sequence_last_value(:cursor_register::text::regclass) as held, pg_sequence_last_value('{schema}.job_seq') as newest
            offset 0
        ) as registers
        offset 0
    ) as place
)
update {schema}.job j
set lock_owner = me.id,
    version    = :claim,
    attempt    = j.attempt + 1,
    claimed_at = clock_timestamp(),
    visible_at = null
from me
where j.ctid = any (array(
    select found.ctid
    from unnest(:after_ranks::int2[], :after_seqs::int8[], :last_ranks::int2[], :last_seqs::int8[]) as range (rank, after, last_rank, last_seq)
    cross join lateral (
        select c.ctid
        from {schema}.job c
        where c.queue = :queue
          and (c.rank, c.seq) > (range.rank, coalesce(range.after, (select start from shared_cursor)))
          and (c.rank, c.seq) <= (range.last_rank, range.last_seq)
          and c.lock_owner is null
          and c.blocked_on is null
          and {queue_open(:queue)}
          and {may_start}
          and ({visible} or :include_hidden::bool)
          and (:kinds::text[] is null or c.kind = any (:kinds))
        order by c.rank, c.seq
        limit :limit
        for update skip locked
    ) as found
    limit :limit
))
returning {job:j}, j.ctid,
          case when j.rank = :cursor_rank::int2 and j.seq > :own_end::int8 then (select start from shared_cursor) end as reserved_from

-- name: waiting
-- The rows that a claim (`claim`) would find, without their content: used to find the row that makes the claim fail.
-- :queue::text, :after_ranks::int2[], :after_seqs::int8[], :last_ranks::int2[], :last_seqs::int8[], :kinds::text[],
-- :include_hidden::bool, :limit::int8
select found.id, found.version::int8, found.seq
from unnest(:after_ranks::int2[], :after_seqs::int8[], :last_ranks::int2[], :last_seqs::int8[]) as range (rank, after, last_rank, last_seq)
cross join lateral (
    select c.id, c.version, c.seq
    from {schema}.job c
    where c.queue = :queue
      and (c.rank, c.seq) > (range.rank, range.after)
      and (c.rank, c.seq) <= (range.last_rank, range.last_seq)
      and c.lock_owner is null
      and c.blocked_on is null
      and {queue_open(:queue)}
      and {may_start}
      and ({visible} or :include_hidden::bool)
      and (:kinds::text[] is null or c.kind = any (:kinds))
    order by c.rank, c.seq
    limit :limit
) as found
limit :limit

-- name: claim_delivered
-- Claims the rows that deliveries name, each only if it still waits in the version of the delivery.
-- `me` as in `claim`. The ids find the rows, through their index and in no other way, under any statistics. The versions are checked in a
-- hashed subplan, because a batch may name an id twice (an old delivery and a newer one).
-- Blocked rows are excluded by a comparison that matches no partial index, so that only the ids are used to find rows.
-- SKIP LOCKED: if two nodes got the same delivery, neither waits for the other.
-- :node::int8, :ids::uuid[], :versions::int8[], :kinds::text[], :claim::int4
with me as materialized (
    select coalesce({schema}.hold_node(:node), {schema}.refuse_node(:node)) as id
)
update {schema}.job j
set lock_owner = me.id,
    version    = :claim,
    attempt    = j.attempt + 1,
    claimed_at = clock_timestamp(),
    visible_at = null
from me
where j.ctid = any (array(
    select c.ctid
    from {schema}.job c
    where c.id = any (:ids::uuid[])
      and c.lock_owner is null
      and coalesce(c.blocked_on, '') = ''
      and {may_start}
      and ((c.id, c.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
      and (:kinds::text[] is null or c.kind = any (:kinds))
    for update skip locked
))
returning {job:j}, j.ctid

-- name: delivered
-- The rows that a claim of deliveries (`claim_delivered`) would find, without their content. Whether they may start is not checked.
-- :ids::uuid[], :versions::int8[]
select c.id, c.version::int8 as version, c.seq
from {schema}.job c
where c.id = any (:ids::uuid[])
  and c.lock_owner is null
  and coalesce(c.blocked_on, '') = ''
  and ((c.id, c.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true

-- name: suspects
-- The best suspects that wait: jobs whose process died while they ran. They are blocked on the key 'alone', so that no ordinary claim reads them and
-- none is slower for them; the index on blocked jobs finds them in their order. Their key is a subselect: with a constant, the
-- planner could take the index on all blocked jobs of a queue. A node claims one of them when nothing else runs in its process
-- (claim_suspect and claim_suspect_counted, which are the ordinary claims with this key: statements.rs).
-- Those that no claim would take are left out, or nodes would empty themselves for them in vain: paused ones, those under a limit of nothing,
-- expired ones, and hidden ones. Whether a limit that claims count has room, only a claim finds out.
-- A limit that was set since may need permits, which only an admission pass gives, and only to ordinary jobs.
-- :queues::text[], :kinds::text[], :limit::int8
select c.id, c.version::int8 as version, c.attempt, c.queue, c.kind,
       not c.admitted and exists (select from {schema}.rule r where (r.running is not null or r.rate is not null) and not {counted} and {covers:c}) as needs_permits
from {schema}.job c
where c.blocked_on = (select 'alone'::text) and c.share = '' and c.lock_owner is null
  and c.queue = any (:queues) and (:kinds::text[] is null or c.kind = any (:kinds))
  and {unexpired}
  and {visible}
  and ((select not exists (select from {schema}.rule r where r.paused or r.running = 0))
       or not exists (select from {schema}.rule r where (r.paused or not c.admitted and r.running = 0) and {covers:c}))
order by c.rank, c.seq
limit :limit

-- name: acquit
-- Makes ordinary jobs of suspects: those that wait may be claimed by any claim, and the death of one that runs is no proof any more. No node could
-- run it alone for a long time (a rule covers it that only an admission pass counts, or all nodes are busy with long jobs), or its run takes so
-- long that others start beside it. A row that another transaction has locked is passed over, and is in the answer without its queue.
-- :ids::uuid[]
with acquitted as (
    update {schema}.job j
    set blocked_on = null, share = null
    where {briefly} and j.ctid = any (array(
        select s.ctid
        from {schema}.job s
        where s.id = any (:ids::uuid[]) and coalesce(s.blocked_on, '') = 'alone'
        for update skip locked
    ))
    returning j.id, j.queue
)
select queue from acquitted
union all
select null
from {schema}.job s
where s.id = any (:ids::uuid[]) and coalesce(s.blocked_on, '') = 'alone' and not exists (select from acquitted a where a.id = s.id)

-- name: release_unknown
-- Releases what this node owns in a range of pages without knowing it: the answer to a claim, or to a commit, got lost. Costs no attempt,
-- because no handler ran.
-- A row that is locked is waited for briefly, because a cancellation may be under way, and `unknown_terminating` comes next.
-- A job with a key is blocked on it again, and the key is unblocked: the lease under which the job was claimed may be gone already.
-- :node::int8, :ids::uuid[], :versions::int8[], :before::int4, :from_location::tid, :to_location::tid
with back as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
    where {briefly}
      and j.ctid >= :from_location and j.ctid < :to_location
      and {owned_unknown}
    returning id, blocked_on
),
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from back where blocked_on <> 'alone'
)
select id from back

-- name: release_unknown_free
-- Like `release_unknown`, but passes over rows that another transaction has locked. It runs after that one failed, for all rows or for some
-- (:only; null = all): the others must wait neither for a locked row nor for one that the application refuses to let go. The caller tries again
-- later, because a cancellation under way may be what locks the row.
-- :node::int8, :ids::uuid[], :versions::int8[], :before::int4, :from_location::tid, :to_location::tid, :only::uuid[]
with back as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
    where {briefly} and j.ctid = any (array(
        select f.ctid
        from {schema}.job f
        where f.ctid >= :from_location and f.ctid < :to_location
          and {owned_unknown}
          and (:only::uuid[] is null or f.id = any (:only::uuid[]))
        for update skip locked
    ))
    returning id, blocked_on
),
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from back where blocked_on <> 'alone'
)
select id from back

-- name: unknown
-- The jobs that `release_unknown` would release in a range of pages: used to go around those that it can't release.
-- :node::int8, :ids::uuid[], :versions::int8[], :before::int4, :from_location::tid, :to_location::tid
select id
from {schema}.job j
where j.ctid >= :from_location and j.ctid < :to_location
  and {owned_unknown}

-- name: unknown_terminating
-- Like `handlers_ended`, for handlers that a node can't know of, because the answer to the claim got lost, or that are no longer in
-- flight. Also for groups that the node holds by a lease which it does not know (known ones are among :ids: no job has their id). As for
-- owned rows (`release_unknown`), claims are compared, and those that began after :before are left alone.
-- :node::int8, :ids::uuid[], :versions::int8[], :before::int4
with ended as (
    delete from {schema}.terminating_handler
    where node = :node
      and ((job_id, version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is not true
      and (:before::int4 is null or (version - :before + 2147483648) % 2147483648 >= 1073741824)
    returning holder
),
leases as (
    delete from {schema}.permit
    where node = :node
      and (job_id = any (:ids::uuid[])) is not true
      and (:before::int4 is null or (version::int8 - :before + 2147483648) % 2147483648 >= 1073741824)
    returning job_id, key
),
unblocked as (
    insert into {schema}.unblock (key) select key from leases
)
select holder from ended union all select job_id from leases

-- name: release_claimed
-- Releases what a claim took whose answer got lost, where it is known which rows that can be. Costs no attempt, because no handler ran.
-- :node::int8, :claim::int4, :ids::uuid[]
update {schema}.job set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
where {briefly} and id = any (:ids::uuid[]) and lock_owner = :node and version = :claim
returning id

-- name: claimed_terminating
-- Like `unknown_terminating`, for a claim whose answer got lost, where it is known which jobs it may have taken.
-- :node::int8, :claim::int4, :ids::uuid[]
delete from {schema}.terminating_handler where job_id = any (:ids::uuid[]) and node = :node and version = :claim
returning holder

-- name: job_pages
-- How many pages a walk over the jobs has. Zero if the server can't scan a range of them (before version 14): then one statement scans them
-- all.
select case when current_setting('server_version_num')::integer >= 140000
            then pg_relation_size('{schema}.job'::regclass) / current_setting('block_size')::int8
            else 0
       end
