-- Makes the rows of `back` wait again, which were handed out. The token of a hand-out is longer than the number of a claim. 31 bits of it stay in the
-- row, so that earlier deliveries no longer match.
insert into {schema}.job ({carried}, version, attempt, errors, options, admitted)
select {carried}, version & 2147483647::int8, greatest(attempt - 1, 0), errors, options, admitted
from back
on conflict (id) do nothing
returning id
