-- The usage of each key: permits, and the running jobs that nodes count themselves. Also the permits that candidates already hold, and the
-- starts within the period of a rate (0 = the key has none). Each key is looked up separately: joins that were planned on empty tables read
-- all permits.
-- :keys::text[], :periods_us::int8[], :ids::uuid[]
select 'permits' as what, k.key, null::uuid as job_id,
       (select count(s.ctid) from {schema}.permit s where s.key collate "C" = k.key)
           + (select coalesce(sum(u.n), 0) from {schema}.usage u where u.key = k.key)::int8 as n,
       null::int8 as oldest
from unnest(:keys::text[]) k(key)
union all
select 'held', key, job_id, 0, null
from {schema}.permit
where job_id = any (:ids::uuid[])
union all
select 'rate', k.key, null, l.n, l.oldest
from unnest(:keys::text[], :periods_us::int8[]) k(key, period)
cross join lateral (
    select sum(n) as n, min((extract(epoch from at)::float8 * 1000000::float8)::int8) as oldest
    from {schema}.rate_log
    where key = k.key and at > statement_timestamp() - k.period::float8 * interval '1 microsecond'
) l
where k.period > 0 and l.n is not null
union all
select 'now', null, null, (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8, null
