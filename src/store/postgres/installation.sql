-- name: installation
-- The installation, and the place where its database is, but for the server's identifier: a role that may not read that gets an error, whatever else a
-- statement asks for. There is always one row. Without a row of the table, the columns of the installation are null.
-- :schema::text
select i.id::text as id, i.server, i.database_oid::int8 as recorded_oid, i.database_name as recorded_name, i.schema_name as recorded_schema,
       d.oid::int8 as found_oid, d.datname::text as found_name, :schema as found_schema
from pg_catalog.pg_database d
left join {schema}.installation i on true
where d.datname = pg_catalog.current_database()

-- name: system_identifier
-- The identifier that a server shares with its standbys and physical backups, and with no other server.
select system_identifier from pg_catalog.pg_control_system()

-- name: adopt
-- Records that the installation is here now: with its id, or with a new one if none is given. The row may be missing, after a restore without rows.
-- :id::text, :server::int8, :schema::text
insert into {schema}.installation as i (id, server, database_oid, database_name, schema_name)
select coalesce(:id::uuid, pg_catalog.gen_random_uuid()), :server, d.oid, d.datname, :schema
from pg_catalog.pg_database d
where d.datname = pg_catalog.current_database()
on conflict (only_one) do update set
    id = excluded.id, server = excluded.server, database_oid = excluded.database_oid, database_name = excluded.database_name,
    schema_name = excluded.schema_name, since = pg_catalog.clock_timestamp()
returning i.id::text as id

-- name: new_report_key
-- A new key for the tokens of hand-outs, of 366 bits of the server's strong random source. Jobs that external workers have meanwhile are handed out
-- again when their leases end.
insert into {schema}.report_key as k (key)
select pg_catalog.sha256(pg_catalog.uuid_send(pg_catalog.gen_random_uuid()) || pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
    || pg_catalog.uuid_send(pg_catalog.gen_random_uuid()))
on conflict (only_one) do update set key = excluded.key
returning 1
