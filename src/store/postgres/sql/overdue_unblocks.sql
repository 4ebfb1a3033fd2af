-- Unblocked keys that no admission pass has read since: few, and for a short time, while there are executors.
select count(*) as unblocks, coalesce(max(extract(epoch from statement_timestamp() - unblock_at)::float8 * 1000000::float8) filter (where isfinite(unblock_at)), 0)::int8 as longest_us
from {schema}.unblock
where unblock_at <= statement_timestamp()
