-- Copies the job; remove_job follows in the same transaction.
insert into jobwright_dead_letter_job ({carried}, version, attempt, errors, options, dead_at, reason)
select {carried}, version, attempt, :errors, options, :now, :reason
from jobwright_job where seq = :seq
on conflict (id) do nothing
