-- Records first submissions with their digests, unless their ids are those of other jobs. The ids are locked in order.
chosen as materialized (
    select d.job_id, d.known
    from {schema}.decide_ids(
        case when (select set_config('lock_timeout', :lock_timeout, true)) is not null then :id::uuid[] end,
        :kind::text[], :queue::text[]
    ) d
),
novel as (
    insert into {schema}.submission (id, digest)
    select s.id, s.digest
    from unnest(:id::uuid[], :digests::bytea[]) as s(id, digest)
    where s.id in (select c.job_id from chosen c where (c.known <> 'same'::text) is not true)
    order by s.id
    on conflict (id) do nothing
    returning id
)
