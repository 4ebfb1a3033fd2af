-- A new incarnation. Its id is drawn by the process that registers, at random: a sequence that forgot what it gave out, after a failover or a
-- restore, would give the same number to two processes. One that is there already is left alone, and another one drawn.
insert into {schema}.node (id, name, host, pid, lease, expires_at)
values ($5, $1, $2, $3, $4 * interval '1 microsecond', clock_timestamp() + $4 * interval '1 microsecond')
on conflict (id) do nothing
returning id
