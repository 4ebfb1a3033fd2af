-- Like remove.sql, for a batch of jobs, in one statement. Shaped like complete.sql (which says why it has no join).
--{all} with done as (
delete from {schema}.job j
where j.id = any ($2::uuid[])
  and j.lock_owner = $1
  and ((j.id, j.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
returning j.id, pg_current_xact_id()::text
--{all} as xid, j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant' as tenant
--{all} ),
--{all} remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
--{all} )
--{all} select id, xid from done
