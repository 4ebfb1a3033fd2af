-- Copies the job; remove_job follows in the same transaction.
insert into jobwright_dead_letter_job (seq, version, dead_at, created_at, id, attempt, max_attempts, rank, kind, queue, reason,
                                       payload, body, content_type, headers, errors, options)
select seq, version, :now, created_at, id, attempt, max_attempts, rank, kind, queue, :reason, payload, body, content_type,
       headers, :errors, options
from jobwright_job where seq = :seq
on conflict (id) do nothing
