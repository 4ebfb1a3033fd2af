-- Gates that opened and that no round has looked at since: few, and not for long, while there are executors.
select count(*), coalesce(max(extract(epoch from statement_timestamp() - opens_at) * 1000000), 0)::int8
from {schema}.opening
where opens_at <= statement_timestamp()
