-- The same for jobs that hold a group, or places under limits: it first says whose end it is to be, for this transaction, so that what they hold is
-- freed together and not one by one (migration 17). A subselect that asks for nothing of the row is run once, and before a row is read. Whoever
-- is named and not removed is still there, and keeps what it holds; or was removed by somebody else, and has nothing left.
--{all} with done as (
delete from {schema}.job j
where (select set_config('jobwright.ended', ($2::uuid[])::text, true)) is not null
  and j.ctid = any ($4::tid[])
  and j.lock_owner = $1
  and ((j.id, j.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
returning j.id
--{all} , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.terms ->> 'tenant' as tenant
--{all} ),
--{all} remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
--{all} )
--{all} select id from done
