-- All nodes, with the number of jobs that they own.
select n.id, n.name, n.host, n.pid, n.started_at, extract(epoch from n.expires_at - clock_timestamp())::float8 as lease_seconds_left,
       n.dead_at is not null as dead, count(j.lock_owner) as running, n.broker
from {schema}.node n
left join (select lock_owner from {schema}.job where lock_owner is not null) j on j.lock_owner = n.id
group by n.id
order by n.id
