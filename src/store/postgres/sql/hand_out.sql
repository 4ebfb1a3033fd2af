-- Moves the best waiting rows of a queue into the hands of external workers, each with a lease. Rows are picked as in
-- claim.sql. No node is locked: the lease of the row answers for it, whoever handed it out.
-- The token ($4) is made by who hands out, at random, as the number of a claim is made by who claims.
with best as materialized (
    delete from {schema}.job
    where ctid = any (array(
        select c.ctid
        from {schema}.job c
        where c.queue = $1 and c.lock_owner is null and c.gate is null
          and {queue_open:$1}
          and {may_start}
        order by c.rank, c.seq
        limit $2
        for update skip locked
    ))
    returning *
)
insert into {schema}.external_job (seq, version, lease_until, lease, created_at, id, attempt, max_attempts, rank, kind, queue,
                                   payload, body, content_type, headers, errors, terms, admitted)
select seq, $4, clock_timestamp() + $3 * interval '1 microsecond', $3 * interval '1 microsecond', created_at, id,
       attempt + 1, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, terms, admitted
from best
on conflict (id) do nothing
returning id, seq, version, kind, rank, attempt, max_attempts, created_at, payload, body, content_type, headers, terms, admitted, null::tid, queue
