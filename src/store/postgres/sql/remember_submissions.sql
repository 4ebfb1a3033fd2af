-- Records first submissions that ask for a unique key, before the keys are taken: a repeated submission must not take its key again. The
-- ids are locked in order, as in receive.sql. It sets for how long the rest of the transaction waits for a lock.
-- :ids::uuid[], :digests::bytea[], :lock_timeout::text
insert into {schema}.submission (id, digest)
select s.id, s.digest
from unnest(:ids::uuid[], :digests::bytea[]) as s(id, digest)
where (select set_config('lock_timeout', :lock_timeout, true)) is not null
order by s.id
on conflict (id) do nothing
returning id
