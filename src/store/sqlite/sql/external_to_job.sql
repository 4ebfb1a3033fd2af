-- Copies the job; remove_external follows in the same transaction. A late report finds no row. The token is longer than the number of a
-- claim. 31 bits of it stay, so that earlier deliveries no longer match.
insert into jobwright_job ({carried}, version, attempt, errors, options, admitted)
select {carried}, version & 2147483647, :attempt, :errors, options, admitted
from jobwright_external_job where seq = :seq
on conflict (id) do nothing
