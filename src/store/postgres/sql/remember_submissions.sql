-- Records first submissions that ask for a unique key, before the keys are taken: a repeated submission must not take its key again. The
-- ids are locked in order, and those of other jobs refused, as in receive.sql. It sets for how long the rest of the transaction waits for a lock.
-- :ids::uuid[], :kinds::text[], :queues::text[], :digests::bytea[], :lock_timeout::text
with chosen as materialized (
    select d.job_id, d.known
    from {schema}.decide_ids(
        case when (select set_config('lock_timeout', :lock_timeout, true)) is not null then :ids end, :kinds, :queues
    ) d
),
novel as (
    insert into {schema}.submission (id, digest)
    select s.id, s.digest
    from unnest(:ids::uuid[], :digests::bytea[]) as s(id, digest)
    where s.id in (select c.job_id from chosen c where (c.known <> 'same'::text) is not true)
    order by s.id
    on conflict (id) do nothing
    returning id
)
select id, null::text as known from novel
union all
select job_id, known from chosen where known <> 'same'::text
