-- As retry_copy_dead, but spent attempts stay spent.
insert into jobwright_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                           headers, errors, options)
select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options
from jobwright_timer_job where {filter}
on conflict (id) do nothing
