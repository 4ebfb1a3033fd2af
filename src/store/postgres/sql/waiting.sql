-- The rows that a claim (claim.sql) would find, without their content: used to find the row that makes the claim fail.
select found.id, found.version::int8, found.seq
from unnest($2::int2[], $3::int8[], $4::int2[], $5::int8[]) as range (rank, after, last_rank, last_seq)
cross join lateral (
    select c.id, c.version, c.seq
    from {schema}.job c
    where c.queue = $1
      and (c.rank, c.seq) > (range.rank, range.after)
      and (c.rank, c.seq) <= (range.last_rank, range.last_seq)
      and c.lock_owner is null
      and c.blocked_on is null
      and {queue_open:$1}
      and {may_start}
      and (c.visible_at is null or c.visible_at <= statement_timestamp() or $7::bool
           or c.visible_at > statement_timestamp() + interval '120 seconds')
      and ($6::text[] is null or c.kind = any ($6))
    order by c.rank, c.seq
    limit $8
) as found
limit $8
