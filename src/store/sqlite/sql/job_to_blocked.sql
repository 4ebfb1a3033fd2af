-- Copies the job; remove_waiting follows in the same transaction.
insert into jobwright_blocked_job ({carried}, version, attempt, errors, options, blocked_on, share)
select {carried}, version, attempt, errors, options, :blocked_on, :share
from jobwright_job where id = :id
on conflict (id) do nothing
