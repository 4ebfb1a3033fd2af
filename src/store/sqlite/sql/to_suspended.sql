-- Copies the jobs; remove follows in the same transaction.
insert into jobwright_suspended_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                                     headers, errors, options, due_at, suspended_at)
select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
       headers, errors, options, {due_at}, :now
from {table} where {filter}
