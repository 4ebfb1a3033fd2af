-- Makes rows wait again that were handed out and did not arrive. A report that comes nevertheless finds no row.
-- Of the token, which is longer than that of a claim, 31 bits stay with the row: they tell deliveries that it was handed out since.
with back as (
    delete from {schema}.external_job e
    where e.id = any ($1::uuid[])
      and ((e.id, e.version) in (select * from unnest($1::uuid[], $2::int8[]))) is true
    returning e.*
)
insert into {schema}.job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                          payload, body, content_type, headers, errors, terms, admitted)
select seq, version & 2147483647, created_at, id, greatest(attempt - 1, 0), max_attempts, rank, kind, queue,
       payload, body, content_type, headers, errors, terms, admitted
from back
on conflict (id) do nothing
returning id
