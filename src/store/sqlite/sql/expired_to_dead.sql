-- Copies the job; remove_expired follows in the same transaction. An existing dead letter of the same id (which should not exist) is kept,
-- rather than failing a whole batch forever.
insert into jobwright_dead_letter_job ({carried}, version, attempt, errors, options, dead_at, reason)
select {carried}, version, attempt, errors, options, :now, :reason
from {table} where seq = :seq
on conflict (id) do nothing
