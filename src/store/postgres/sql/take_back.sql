-- Makes rows wait again that were handed out and did not arrive. A report that comes nevertheless finds no row.
-- The token is longer than the number of a claim. 31 bits of it stay in the row, so that earlier deliveries no longer match.
with back as (
    delete from {schema}.external_job e
    where e.id = any ($1::uuid[])
      and ((e.id, e.version) in (select * from unnest($1::uuid[], $2::int8[]))) is true
    returning e.*
)
insert into {schema}.job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                          payload, body, content_type, headers, errors, options, admitted)
select seq, version & 2147483647, created_at, id, greatest(attempt - 1, 0), max_attempts, rank, kind, queue,
       payload, body, content_type, headers, errors, options, admitted
from back
on conflict (id) do nothing
returning id
