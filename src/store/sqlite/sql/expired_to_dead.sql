-- A copy; remove_expired follows in the same transaction. A dead letter of the same id (which can't be) is kept rather than failing a
-- whole batch for ever.
insert into jobwright_dead_letter_job (seq, version, dead_at, created_at, id, attempt, max_attempts, rank, kind, queue, reason,
                                       payload, body, content_type, headers, errors, terms)
select seq, version, :now, created_at, id, attempt, max_attempts, rank, kind, queue, :reason, payload, body, content_type,
       headers, errors, terms
from {table} where seq = :seq
on conflict (id) do nothing
