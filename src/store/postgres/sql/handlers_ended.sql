-- Removes handlers of cancelled jobs that have ended, of a node or of external workers (:node null). A trigger releases what they held.
-- :node::int8, :ids::uuid[], :versions::int8[]
delete from {schema}.terminating_handler
where job_id = any (:ids::uuid[])
  and node is not distinct from :node
  and ((job_id, version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
returning holder
