-- Records first submissions that ask for a unique key, before the keys are taken: a repeated submission must not take its key again. The
-- ids are locked in order, and those of other jobs refused, as in receive.sql. It sets for how long the rest of the transaction waits for a lock.
-- :id::uuid[], :kind::text[], :queue::text[], :digests::bytea[], :lock_timeout::text
with {first_submissions}
select id, null::text as known from novel
union all
select job_id, known from chosen where known <> 'same'::text
