-- Copies the job; remove_external follows in the same transaction. A late report finds no row. The token is longer than the number of a
-- claim. 31 bits of it stay, so that earlier deliveries no longer match.
insert into jobwright_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type,
                           headers, errors, options, admitted)
select seq, version & 2147483647, created_at, id, :attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, :errors, options, admitted
from jobwright_external_job where seq = :seq
on conflict (id) do nothing
