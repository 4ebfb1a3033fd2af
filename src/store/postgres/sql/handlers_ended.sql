-- Removes handlers of cancelled jobs that have ended, of a node or of external workers ($1 null). A trigger releases what they held.
delete from {schema}.terminating_handler
where job_id = any ($2::uuid[])
  and node is not distinct from $1
  and ((job_id, version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
returning holder
