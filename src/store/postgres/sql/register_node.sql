-- A new node session. The process that registers draws its id at random: after a failover or a restore, a sequence that lost its last
-- values would give the same number to two processes. If the id exists, nothing is inserted, and the caller draws another one.
insert into {schema}.node (id, name, host, pid, lease, expires_at)
values ($5, $1, $2, $3, $4 * interval '1 microsecond', clock_timestamp() + $4 * interval '1 microsecond')
on conflict (id) do nothing
returning id
