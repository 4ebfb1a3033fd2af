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
