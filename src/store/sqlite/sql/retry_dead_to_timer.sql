-- A dead letter that is to run again later. The caller removes it, because retry_remove does not apply. A time to live starts again at the
-- due date.
insert into jobwright_timer_job ({carried}, version, attempt, errors, options, due_at)
select {carried}, version, 0, errors,
       case when options ->> 'ttl' is not null then json_set(options, '$.expires', :due_at + (options ->> 'ttl')) else options end, :due_at
from jobwright_dead_letter_job where seq = :seq
on conflict (id) do nothing
