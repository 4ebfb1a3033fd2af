-- The best suspects that wait: jobs whose process died while they ran. They are blocked on the key 'alone', so that no ordinary claim reads them and
-- none is slower for them; the index on blocked jobs finds them in their order. Their key is a subselect: with a constant, the
-- planner could take the index on all blocked jobs of a queue. A node claims one of them when nothing else runs in its process
-- (claim_suspect and claim_suspect_counted, which are the ordinary claims with this key: statements.rs).
-- Those that no claim would take are left out, or nodes would empty themselves for them in vain: paused ones, those under a limit of nothing,
-- expired ones, and hidden ones. Whether a limit that claims count has room, only a claim finds out.
-- A limit that was set since may need permits, which only an admission pass gives, and only to ordinary jobs.
-- :queues::text[], :kinds::text[], :limit::int8
select c.id, c.version::int8 as version, c.attempt, c.queue, c.kind,
       not c.admitted and exists (select from {schema}.rule r where (r.running is not null or r.rate is not null) and not {counted} and {covers:c}) as needs_permits
from {schema}.job c
where c.blocked_on = (select 'alone'::text) and c.share = '' and c.lock_owner is null
  and c.queue = any (:queues) and (:kinds::text[] is null or c.kind = any (:kinds))
  and (c.options is null or (c.options ->> 'expires'::text)::int8 > (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
       or (c.options ? 'expires'::text) is not true)
  and (c.visible_at is null or c.visible_at <= statement_timestamp() or c.visible_at > statement_timestamp() + interval '120 seconds')
  and ((select not exists (select from {schema}.rule r where r.paused or r.running = 0))
       or not exists (select from {schema}.rule r where (r.paused or not c.admitted and r.running = 0) and {covers:c}))
order by c.rank, c.seq
limit :limit
