-- Takes the best waiting rows of a queue.
-- `me` locks the node's row against being declared dead (that takes FOR UPDATE): a dead node claims nothing, and what a live
-- one claims is always answered for. It does not wait for, or block, the node's own heartbeat.
-- The rows are picked and locked by a subselect and found again by ctid: one pass over the index, and no join that could
-- take more rows than the limit. A ctid can't go stale in between, because the lock is already held.
-- Rows that are held for a delivery are left to it, unless nothing is delivered at the moment ($8).
-- What is paused, limited or expired stays (part/may_start.sql).
-- The queue is looked at in ranges (store/postgres/range.rs), best rank first: each is a scan of its own, from the mark of its rank to
-- the next rank that has a mark. Both ends are conditions of the index, so what lies before a mark is not walked over. The last limit
-- ends the scans: a row beyond it is not even locked.
with me as materialized (
    select id from {schema}.node where id = $1 and dead_at is null for key share
)
update {schema}.job j
set lock_owner = me.id,
    version    = j.version + 1,
    attempt    = j.attempt + 1,
    claimed_at = clock_timestamp(),
    held_until = null
from me
where j.ctid = any (array(
    select found.ctid
    from unnest($3::int2[], $4::int8[], $5::int2[]) as range (rank, after, last_rank)
    cross join lateral (
        select c.ctid
        from {schema}.job c
        where c.queue = $2
          and (c.rank, c.seq) > (range.rank, range.after)
          and c.rank <= range.last_rank
          and c.lock_owner is null
          and {queue_open:$2}
          and {may_start}
          and (c.held_until is null or c.held_until <= statement_timestamp() or $8::bool)
          and ($6::text[] is null or c.kind = any ($6))
        order by c.rank, c.seq
        limit $7
        for update skip locked
    ) as found
    limit $7
))
returning j.id, j.seq, j.version, j.kind, j.rank, j.attempt, j.max_attempts, j.created_at,
          j.payload, j.body, j.content_type, j.headers, j.terms, j.admitted
