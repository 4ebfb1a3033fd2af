-- A copy; remove_job follows in the same transaction. A timer of the same id (which can't be) is kept rather than failing a
-- whole batch for ever.
insert into jobwright_timer_job (seq, version, due_at, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body,
                                 content_type, headers, errors, terms)
select seq, version, :due_at, created_at, id, :attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers,
       :errors, terms
from jobwright_job where seq = :seq
on conflict (id) do nothing
