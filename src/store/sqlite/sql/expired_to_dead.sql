-- Copies the job; remove_expired follows in the same transaction. An existing dead letter of the same id (which should not exist) is kept,
-- rather than failing a whole batch forever.
insert into jobwright_dead_letter_job (seq, version, dead_at, created_at, id, attempt, max_attempts, rank, kind, queue, reason,
                                       payload, body, content_type, headers, errors, options)
select seq, version, :now, created_at, id, attempt, max_attempts, rank, kind, queue, :reason, payload, body, content_type,
       headers, errors, options
from {table} where seq = :seq
on conflict (id) do nothing
