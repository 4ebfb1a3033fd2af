-- Copies the job; remove_job follows in the same transaction. An existing timer of the same id (which should not exist) is kept, rather
-- than failing a whole batch forever.
insert into jobwright_timer_job (seq, version, due_at, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body,
                                 content_type, headers, errors, options)
select seq, version, :due_at, created_at, id, :attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers,
       :errors, options
from jobwright_job where seq = :seq
on conflict (id) do nothing
