-- A job of the same id that is there already wins; the dead letter then stays where it is. With a time to live it lives as long again.
insert into jobwright_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                           headers, errors, terms)
select seq, version, created_at, id, 0, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, 
       case when terms ->> 'ttl' is not null
            then json_set(terms, '$.expires', cast(unixepoch('subsec') * 1000000 as integer) + (terms ->> 'ttl')) else terms end
from jobwright_dead_letter_job where {filter}
on conflict (id) do nothing
