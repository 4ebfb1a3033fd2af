-- Copies the job; remove_job follows in the same transaction. An existing timer of the same id (which should not exist) is kept, rather
-- than failing a whole batch forever.
insert into jobwright_timer_job ({carried}, version, attempt, errors, options, due_at)
select {carried}, version, :attempt, :errors, options, :due_at
from jobwright_job where seq = :seq
on conflict (id) do nothing
