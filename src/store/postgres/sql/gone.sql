-- Which claims are no longer current: cancelled, or released to somebody else. Asked by id, about the few that have been running for a while:
-- without a join, which would compare them with all jobs when it was planned on an empty table.
select w.id, w.version
from unnest($2::uuid[], $3::int8[]) as w(id, version)
where (select j.id from {schema}.job j where j.id = w.id and j.version = w.version and j.lock_owner = $1 limit 1) is null
