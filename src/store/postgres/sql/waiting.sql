-- The rows that a claim (claim.sql) would find, without their content: used to find the row that makes the claim fail.
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
      and (c.visible_at is null or c.visible_at <= statement_timestamp() or :include_hidden::bool
           or c.visible_at > statement_timestamp() + interval '120 seconds')
      and (:kinds::text[] is null or c.kind = any (:kinds))
    order by c.rank, c.seq
    limit :limit
) as found
limit :limit
