-- Which claims are no longer current: cancelled, or released to another node. Looked up by id, for the few jobs that have been running for
-- a while. There is no join: planned on an empty table, it would compare them with all jobs.
-- :node::int8, :ids::uuid[], :versions::int8[]
select w.id, w.version
from unnest(:ids::uuid[], :versions::int8[]) as w(id, version)
where (select j.id from {schema}.job j where j.id = w.id and j.version = w.version and j.lock_owner = :node limit 1) is null
