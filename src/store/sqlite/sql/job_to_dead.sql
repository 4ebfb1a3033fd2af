-- A copy; remove_job follows in the same transaction.
insert into jobwright_dead_letter_job (seq, version, dead_at, created_at, id, attempt, max_attempts, rank, kind, queue, reason,
                                       payload, body, content_type, headers, errors, terms)
select seq, version, :now, created_at, id, attempt, max_attempts, rank, kind, queue, :reason, payload, body, content_type,
       headers, :errors, terms
from jobwright_job where seq = :seq
on conflict (id) do nothing
