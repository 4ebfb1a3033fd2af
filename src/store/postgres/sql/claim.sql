-- Claims the best waiting rows of a queue.
-- `me` locks the node, which can't be forgotten before this is committed, so every claimed row has a known owner. A dead or unknown node is
-- an error and not an empty answer: a node that never learnt of it would claim nothing forever.
-- A subselect picks and locks the rows, which are found again by ctid: one pass over the index, and no join that could take more rows than
-- the limit. A ctid can't go stale in between, because the lock is already held.
-- Rows hidden for a delivery are left to it, unless nothing is being delivered now (:include_hidden), or the row is hidden for longer
-- than anything asks for: then a clock that ran ahead wrote that time (MAX_HIDDEN).
-- Paused, limited and expired jobs are passed over (fragment/may_start.sql).
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
          and (c.visible_at is null or c.visible_at <= statement_timestamp() or :include_hidden::bool
               or c.visible_at > statement_timestamp() + interval '120 seconds')
          and (:kinds::text[] is null or c.kind = any (:kinds))
        order by c.rank, c.seq
        limit :limit
        for update skip locked
    ) as found
    limit :limit
))
returning {job:j}, j.ctid,
          case when j.rank = :cursor_rank::int2 and j.seq > :own_end::int8 then (select start from shared_cursor) end as reserved_from
