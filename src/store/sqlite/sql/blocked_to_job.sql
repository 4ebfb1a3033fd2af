-- Copies the job; remove_blocked follows in the same transaction.
insert into jobwright_job ({carried}, version, attempt, errors, options, admitted)
select {carried}, version, attempt, errors, options, 1
from jobwright_blocked_job where id = :id
on conflict (id) do nothing
returning queue
