-- Copies the jobs; remove follows in the same transaction. A job of a group waits for admission: a trigger ensures that.
insert into jobwright_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                           headers, errors, options)
select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
       headers, errors, options
from {table} where {filter}
