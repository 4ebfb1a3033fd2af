-- Claims the rows that deliveries name, each only if it still waits in the version of the delivery.
-- `me` as in claim.sql. The ids find the rows, through their index and in no other way, under any statistics. The versions are checked in a
-- hashed subplan, because a batch may name an id twice (an old delivery and a newer one).
-- Blocked rows are excluded by a comparison that matches no partial index, so that only the ids are used to find rows.
-- SKIP LOCKED: if two nodes got the same delivery, neither waits for the other.
with me as materialized (
    select coalesce({schema}.hold_node($1), {schema}.refuse_node($1)) as id
)
update {schema}.job j
set lock_owner = me.id,
    version    = $5,
    attempt    = j.attempt + 1,
    claimed_at = clock_timestamp(),
    visible_at = null
from me
where j.ctid = any (array(
    select c.ctid
    from {schema}.job c
    where c.id = any ($2::uuid[])
      and c.lock_owner is null
      and coalesce(c.blocked_on, '') = ''
      and {may_start}
      and ((c.id, c.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
      and ($4::text[] is null or c.kind = any ($4))
    for update skip locked
))
returning j.id, j.seq, j.version::int8, j.kind, j.rank, j.attempt, j.max_attempts, j.created_at,
          j.payload, j.body, j.content_type, j.headers, j.options, j.admitted, j.ctid, j.queue
