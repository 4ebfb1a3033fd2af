-- Remembers first submissions that ask for a unique key, before the keys are asked for: one that comes again must not take its key again.
-- The ids are locked in their own order, as by receive.sql.
insert into {schema}.submission (id, digest)
select s.id, s.digest
from unnest($1::uuid[], $2::bytea[]) as s(id, digest)
order by s.id
on conflict (id) do nothing
returning id
