-- Removes finished jobs, each only if this claim still owns it.
delete from {schema}.job j
using unnest($2::uuid[], $3::int8[]) as done(id, version)
where j.id = done.id
  and j.version = done.version
  and j.lock_owner = $1
returning j.id
