-- Hands the best waiting rows of a queue out to external workers, each with a lease. Rows are picked as in claim.sql. No node is locked:
-- the lease of the row counts, whichever node handed it out.
-- The node that hands out chooses the token (:token), at random, as a claimer chooses the number of its claim.
-- :queue::text, :limit::int8, :lease_us::int8, :token::int8
with best as materialized (
    delete from {schema}.job
    where ctid = any (array(
        select c.ctid
        from {schema}.job c
        where c.queue = :queue and c.lock_owner is null and c.blocked_on is null
          and {queue_open(:queue)}
          and {may_start}
        order by c.rank, c.seq
        limit :limit
        for update skip locked
    ))
    returning *
)
insert into {schema}.external_job as j ({carried}, version, lease_until, lease, attempt, errors, options, admitted)
select {carried}, :token, clock_timestamp() + :lease_us::float8 * interval '1 microsecond', :lease_us::float8 * interval '1 microsecond',
       attempt + 1, errors, options, admitted
from best
on conflict (id) do nothing
returning {job:j}, null::tid as ctid
