-- Makes rows wait again that were handed out and did not arrive. The version stays: a report that comes nevertheless finds no
-- row, and the next claim raises it.
with back as (
    delete from {schema}.external_job e
    where e.id = any ($1::uuid[])
      and ((e.id, e.version) in (select * from unnest($1::uuid[], $2::int8[]))) is true
    returning e.*
)
insert into {schema}.job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                          payload, body, content_type, headers, errors, terms, admitted)
select seq, version, created_at, id, greatest(attempt - 1, 0), max_attempts, rank, kind, queue,
       payload, body, content_type, headers, errors, terms, admitted
from back
on conflict (id) do nothing
returning id
