-- Like complete_holding.sql, for a batch with jobs that hold unique keys. Permits are released as there, if any job holds some
-- (:holding). The statement gives the keys back itself, and turns off the trigger that does it row by row, which took longer than
-- everything else for such a job.
-- A key is looked up by its value, and is given back if it still belongs to that job. A key that was taken for a period stays until the
-- period is over. If there is another row with the same id, the key belongs to that one. A key that a sender is just taking over is left to
-- the sender: the end of a job waits for no sender.
-- All rows are removed before a key is locked, because of the locking order: a process that waits for one of the keys waits only for the
-- end of this statement.
-- :node::int8, :ids::uuid[], :versions::int8[], :locations::tid[], :holding::bool
with done as (
    delete from {schema}.job j
    where (select set_config('jobwright.ended', case when :holding then (:ids::uuid[])::text else '' end, true)) is not null
      and (select set_config('jobwright.released', 'true', true)) is not null
      and {briefly}
      and j.ctid = any (:locations::tid[])
      and j.lock_owner = :node
      and ((j.id, j.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
    returning j.id, {schema}.key_of(j.options) as key
--{all} , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant'::text as tenant
),
--{all} remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, :node, tenant from done
--{all} ),
released as (
    delete from {schema}.unique_key
    where ctid = any (array(
        select k.tid
        from (select id, key from done where key is not null order by key) d
             cross join lateral (
                 select ctid as tid
                 from {schema}.unique_key
                 where key = d.key and job_id = d.id and hold <> 'period'
                   and not exists (select from {schema}.timer_job where id = d.id)
                   and not exists (select from {schema}.external_job where id = d.id)
                   and not exists (select from {schema}.dead_letter_job where id = d.id)
                   and not exists (select from {schema}.suspended_job where id = d.id)
                 for update skip locked
             ) k
    ))
)
select id from done
