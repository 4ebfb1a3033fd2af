-- A copy; remove follows in the same transaction. One of a group waits for admission: a trigger sees to it.
insert into jobwright_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                           headers, errors, terms)
select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
       headers, errors, terms
from {table} where {filter}
