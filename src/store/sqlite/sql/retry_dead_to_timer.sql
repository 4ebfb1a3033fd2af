-- A dead letter that is to run again later; retry_remove does not apply, the caller removes it. It lives as long again from then on.
insert into jobwright_timer_job (seq, version, due_at, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body,
                                 content_type, headers, errors, terms)
select seq, version, :due_at, created_at, id, 0, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors,
       case when terms ->> 'ttl' is not null then json_set(terms, '$.expires', :due_at + (terms ->> 'ttl')) else terms end
from jobwright_dead_letter_job where seq = :seq
on conflict (id) do nothing
