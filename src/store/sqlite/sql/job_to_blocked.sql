-- Copies the job; remove_waiting follows in the same transaction.
insert into jobwright_blocked_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                                   headers, errors, options, blocked_on, share)
select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options,
       :blocked_on, :share
from jobwright_job where id = :id
on conflict (id) do nothing
