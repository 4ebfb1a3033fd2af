-- Hands the best waiting rows of a queue out to external workers, each with a lease. Rows are picked as in claim.sql. No node is locked:
-- the lease of the row counts, whichever node handed it out.
-- The node that hands out chooses the token ($4), at random, as a claimer chooses the number of its claim.
with best as materialized (
    delete from {schema}.job
    where ctid = any (array(
        select c.ctid
        from {schema}.job c
        where c.queue = $1 and c.lock_owner is null and c.blocked_on is null
          and {queue_open:$1}
          and {may_start}
        order by c.rank, c.seq
        limit $2
        for update skip locked
    ))
    returning *
)
insert into {schema}.external_job (seq, version, lease_until, lease, created_at, id, attempt, max_attempts, rank, kind, queue,
                                   payload, body, content_type, headers, errors, options, admitted)
select seq, $4, clock_timestamp() + $3 * interval '1 microsecond', $3 * interval '1 microsecond', created_at, id,
       attempt + 1, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options, admitted
from best
on conflict (id) do nothing
returning id, seq, version, kind, rank, attempt, max_attempts, created_at, payload, body, content_type, headers, options, admitted, null::tid, queue
