-- The installation, and the place where its database is, but for the server's identifier: a role that may not read that gets an error, whatever else a
-- statement asks for. There is always one row. Without a row of the table, the columns of the installation are null.
-- :schema::text
select i.id::text as id, i.server, i.database_oid::int8 as recorded_oid, i.database_name as recorded_name, i.schema_name as recorded_schema,
       d.oid::int8 as found_oid, d.datname::text as found_name, :schema as found_schema
from pg_catalog.pg_database d
left join {schema}.installation i on true
where d.datname = pg_catalog.current_database()
