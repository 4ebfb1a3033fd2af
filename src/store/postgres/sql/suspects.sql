-- The best suspects that wait: jobs whose process died while they ran. They are blocked on the key 'alone', so that no ordinary claim reads them and
-- none is slower for them; the index on blocked jobs finds them in their order. Their key is a subselect: with a constant, the
-- planner could take the index on all blocked jobs of a queue. A node claims one of them when nothing else runs in its process
-- (claim_suspect and claim_suspect_counted, which are the ordinary claims with this key: statements.rs).
-- A limit that was set since may need permits, which only an admission pass gives, and only to ordinary jobs.
-- :queues::text[], :kinds::text[], :limit::int8
select j.id, j.queue, j.kind,
       not j.admitted and exists (select from {schema}.rule r where (r.running is not null or r.rate is not null) and not {counted} and {covers:j}) as needs_permits
from {schema}.job j
where j.blocked_on = (select 'alone'::text) and j.share = '' and j.lock_owner is null
  and j.queue = any (:queues) and j.kind = any (:kinds)
order by j.rank, j.seq
limit :limit
