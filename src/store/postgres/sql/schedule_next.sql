-- The only query while nothing is due: one lookup at the start of the index.
select (extract(epoch from min(next_at) - statement_timestamp())::float8 * 1000000::float8)::int8
from {schema}.schedule
where not paused and next_at is not null
