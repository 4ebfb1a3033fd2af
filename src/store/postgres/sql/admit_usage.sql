-- What is taken of each key, by slots and by what nodes run that count by themselves; what candidates hold already, and what started within the period of a rate (0 = the key has none).
select 'slots', key, null::uuid, sum(n)::int8, null::int8
from (select key, count(*) as n from {schema}.slot where key = any ($1::text[]) group by key
      union all
      select key, sum(n) from {schema}.usage where key = any ($1::text[]) group by key) taken
group by key
union all
select 'held', key, job_id, 0, null
from {schema}.slot
where job_id = any ($3::uuid[])
union all
select 'rate', l.key, null, sum(l.n), min((extract(epoch from l.at) * 1000000)::int8)
from unnest($1::text[], $2::int8[]) k(key, period)
join {schema}.rate_log l on l.key = k.key and l.at > statement_timestamp() - k.period * interval '1 microsecond'
where k.period > 0
group by l.key
union all
select 'now', null, null, (extract(epoch from statement_timestamp()) * 1000000)::int8, null
