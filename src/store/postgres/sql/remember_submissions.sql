-- Records first submissions that ask for a unique key, before the keys are taken: a repeated submission must not take its key again. The
-- ids are locked in order, as in receive.sql.
-- :ids::uuid[], :digests::bytea[]
insert into {schema}.submission (id, digest)
select s.id, s.digest
from unnest(:ids::uuid[], :digests::bytea[]) as s(id, digest)
order by s.id
on conflict (id) do nothing
returning id
