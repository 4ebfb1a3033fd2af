-- A copy; remove_external follows in the same transaction. A late report finds no row. Of the token, which is longer than
-- that of a claim, 31 bits stay: they tell deliveries that it was handed out since.
insert into jobwright_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                           headers, errors, terms, admitted)
select seq, version & 2147483647, created_at, id, :attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, :errors, terms, admitted
from jobwright_external_job where seq = :seq
on conflict (id) do nothing
