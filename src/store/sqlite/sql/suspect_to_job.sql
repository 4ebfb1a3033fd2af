-- Copies a suspect; remove_suspect follows in the same transaction.
insert into jobwright_job ({carried}, version, attempt, errors, options, admitted)
select {carried}, version, attempt, errors, options, admitted
from jobwright_blocked_job where id = :id and blocked_on = 'alone'
on conflict (id) do nothing
returning queue
