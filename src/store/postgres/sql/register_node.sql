-- A new node session. The process that registers draws its id at random: after a failover or a restore, a sequence that lost its last
-- values would give the same number to two processes. If the id exists, nothing is inserted, and the caller draws another one.
-- :name::text, :host::text, :pid::int8, :lease_us::int8, :node::int8
insert into {schema}.node (id, name, host, pid, lease, expires_at)
values (:node, :name, :host, :pid, :lease_us::float8 * interval '1 microsecond', clock_timestamp() + :lease_us::float8 * interval '1 microsecond')
on conflict (id) do nothing
returning id
