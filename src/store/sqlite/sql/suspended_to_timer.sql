-- Jobs whose due date is ahead. Copies them; remove follows in the same transaction.
insert into jobwright_timer_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                                 headers, errors, options, due_at)
select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
       headers, errors, options, due_at
from {table} where due_at > :now and {filter}
