-- A copy; remove_external follows in the same transaction. The version stays: a late report finds no row, and the next claim
-- raises it.
insert into jobwright_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                           headers, errors, terms, admitted)
select seq, version, created_at, id, :attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, :errors, terms, admitted
from jobwright_external_job where seq = :seq
on conflict (id) do nothing
