-- Which claims are no longer current: cancelled, or released to somebody else. Asked by id, about the few that have been running for a while.
select w.id, w.version
from unnest($2::uuid[], $3::int8[]) as w(id, version)
where not exists (select from {schema}.job j where j.id = w.id and j.version = w.version and j.lock_owner = $1)
