-- Copies the job; remove_external follows in the same transaction.
insert into jobwright_timer_job ({carried}, version, attempt, errors, options, due_at)
select {carried}, version & 2147483647, :attempt, :errors, options, :due_at
from jobwright_external_job where seq = :seq
on conflict (id) do nothing
