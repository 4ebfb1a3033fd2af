-- Copies the job; remove_external follows in the same transaction.
insert into jobwright_dead_letter_job (seq, version, dead_at, created_at, id, attempt, max_attempts, rank, kind, queue, reason,
                                       payload, body, content_type, headers, errors, options)
select seq, version & 2147483647, :now, created_at, id, attempt, max_attempts, rank, kind, queue, :reason, payload, body, content_type,
       headers, :errors, options
from jobwright_external_job where seq = :seq
on conflict (id) do nothing
