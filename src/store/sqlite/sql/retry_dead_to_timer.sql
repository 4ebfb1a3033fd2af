-- A dead letter that is to run again later. The caller removes it, because retry_remove does not apply. A time to live starts again at the
-- due date.
insert into jobwright_timer_job (seq, version, due_at, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body,
                                 content_type, headers, errors, options)
select seq, version, :due_at, created_at, id, 0, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors,
       case when options ->> 'ttl' is not null then json_set(options, '$.expires', :due_at + (options ->> 'ttl')) else options end
from jobwright_dead_letter_job where seq = :seq
on conflict (id) do nothing
