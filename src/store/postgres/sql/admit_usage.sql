-- The usage of each key: permits, and the running jobs that nodes count themselves. Also the permits that candidates already hold, and the
-- starts within the period of a rate (0 = the key has none). Each key is looked up separately: joins that were planned on empty tables read
-- all permits.
select 'permits', k.key, null::uuid,
       (select count(s.ctid) from {schema}.permit s where s.key collate "C" = k.key)
           + (select coalesce(sum(u.n), 0) from {schema}.usage u where u.key = k.key)::int8,
       null::int8
from unnest($1::text[]) k(key)
union all
select 'held', key, job_id, 0, null
from {schema}.permit
where job_id = any ($3::uuid[])
union all
select 'rate', k.key, null, l.n, l.oldest
from unnest($1::text[], $2::int8[]) k(key, period)
cross join lateral (
    select sum(n) as n, min((extract(epoch from at) * 1000000)::int8) as oldest
    from {schema}.rate_log
    where key = k.key and at > statement_timestamp() - k.period * interval '1 microsecond'
) l
where k.period > 0 and l.n is not null
union all
select 'now', null, null, (extract(epoch from statement_timestamp()) * 1000000)::int8, null
