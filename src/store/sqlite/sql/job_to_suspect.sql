-- Copies a job whose process died while it ran; remove_job follows in the same transaction. It keeps what it holds.
insert into jobwright_blocked_job ({carried}, version, attempt, errors, options, admitted, blocked_on, share)
select {carried}, version, attempt, errors, options, admitted, 'alone', ''
from jobwright_job where seq = :seq
on conflict (id) do nothing
