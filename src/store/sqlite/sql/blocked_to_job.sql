-- Copies the job; remove_blocked follows in the same transaction.
insert into jobwright_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                           headers, errors, options, admitted)
select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options, 1
from jobwright_blocked_job where id = :id
on conflict (id) do nothing
returning queue
