-- Takes the best waiting rows of a queue.
-- `me` holds the node: it can't be forgotten before this is committed, so that whatever is claimed is answered for. One that is dead or
-- unknown is an error and not an empty answer, because a node that never hears of it would claim nothing for ever.
-- The rows are picked and locked by a subselect and found again by ctid: one pass over the index, and no join that could
-- take more rows than the limit. A ctid can't go stale in between, because the lock is already held.
-- Rows that are held for a delivery are left to it, unless nothing is delivered at the moment ($8), or they are held for longer than anybody
-- asks for: then a clock wrote that which was ahead (LONGEST_HOLD).
-- What is paused, limited or expired stays (part/may_start.sql).
-- The queue is looked at in ranges (store/postgres/range.rs), best rank first: each is a scan of its own, from the mark of its rank to
-- the next rank that has a mark. Both ends are conditions of the index, so what lies before a mark is not walked over. The last limit
-- ends the scans: a row beyond it is not even locked.
-- A look at what was passed over is one range that ends where claims have been.
-- A range without a start begins at the front that processes share (store/postgres/front.rs): the sequence $9, if what it holds is about
-- these rows ($10, above the 48 bits of a number). `place` is asked and moved on by $12 before a row is read, so another claim that is
-- under way begins behind this one. Never beyond the last number given out, because what is sent later must not lie before it. OFFSET 0:
-- each sequence is asked once.
-- The answer says where the front was, so that the claimer knows what was set aside for it. Only rows of its rank ($14) behind what was
-- its own before were found there; for others it is not asked, because asking moves it on.
-- The number of the claim ($15) is the claimer's own, never counted on from what the row has: a row can be put back to an earlier state, by a
-- failover, a restore, or an id that is used again, and then would count to the same number twice.
with me as materialized (
    select coalesce({schema}.hold_node($1), {schema}.refuse_node($1)) as id
),
front as materialized (
    select place.start, setval($9::text::regclass, ($10::int8 << 48) | least(place.start + $12::int8, place.newest))
    from (
        select least(greatest($11::int8, case when held >> 48 = $10 then held & 281474976710655 end), newest) as start, newest
        from (
            select pg_sequence_last_value($9::text::regclass) as held, pg_sequence_last_value('{schema}.job_seq') as newest
            offset 0
        ) as registers
        offset 0
    ) as place
)
update {schema}.job j
set lock_owner = me.id,
    version    = $15,
    attempt    = j.attempt + 1,
    claimed_at = clock_timestamp(),
    held_until = null
from me
where j.ctid = any (array(
    select found.ctid
    from unnest($3::int2[], $4::int8[], $5::int2[], $13::int8[]) as range (rank, after, last_rank, last_seq)
    cross join lateral (
        select c.ctid
        from {schema}.job c
        where c.queue = $2
          and (c.rank, c.seq) > (range.rank, coalesce(range.after, (select start from front)))
          and (c.rank, c.seq) <= (range.last_rank, range.last_seq)
          and c.lock_owner is null
          and c.gate is null
          and {queue_open:$2}
          and {may_start}
          and (c.held_until is null or c.held_until <= statement_timestamp() or $8::bool
               or c.held_until > statement_timestamp() + interval '120 seconds')
          and ($6::text[] is null or c.kind = any ($6))
        order by c.rank, c.seq
        limit $7
        for update skip locked
    ) as found
    limit $7
))
returning j.id, j.seq, j.version::int8, j.kind, j.rank, j.attempt, j.max_attempts, j.created_at,
          j.payload, j.body, j.content_type, j.headers, j.terms, j.admitted, j.ctid,
          case when j.rank = $14::int2 and j.seq > $11::int8 then (select start from front) end as began
