-- The same for a batch of jobs, in one statement; shaped as the statement that completes jobs (see there why it has no join).
delete from {schema}.job j
where j.id = any ($2::uuid[])
  and j.lock_owner = $1
  and ((j.id, j.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
returning j.id, pg_current_xact_id()::text
