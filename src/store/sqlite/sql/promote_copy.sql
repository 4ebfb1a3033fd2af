-- Takes the same rows as promote_remove: same moment, order and limit, one transaction. A job that is there already wins.
insert into jobwright_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                           headers, errors, terms)
select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, terms
from jobwright_timer_job where due_at <= :now
order by due_at, seq limit :limit
on conflict (id) do nothing
