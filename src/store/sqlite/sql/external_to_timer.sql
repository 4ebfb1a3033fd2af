-- Copies the job; remove_external follows in the same transaction.
insert into jobwright_timer_job (seq, version, due_at, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body,
                                 content_type, headers, errors, options)
select seq, version & 2147483647, :due_at, created_at, id, :attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers,
       :errors, options
from jobwright_external_job where seq = :seq
on conflict (id) do nothing
