-- A new incarnation: its id is never used again.
insert into {schema}.node (name, host, pid, lease, expires_at)
values ($1, $2, $3, $4 * interval '1 microsecond', clock_timestamp() + $4 * interval '1 microsecond')
returning id
