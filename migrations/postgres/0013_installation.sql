-- An installation has an id, and its database knows the place for which it was made. A restored or cloned database has all that the original has, and
-- with the same settings of the broker it would take submissions and reports of the original. Nodes look here when they register: where the place
-- found is another one, they ask to be told whether this is a copy or the original that moved (`jobwright adopt`).
--
-- The place is the system identifier of the server, the number of the database and the schema. Standbys and base backups have the same identifier and
-- the same numbers, so a failover and a restore of the whole server need no answer. By default everybody may read the identifier; where that right was
-- taken away, the name of the database counts in its place.
create table {schema}.installation (
    only_one      boolean primary key default true check (only_one),
    id            uuid not null,
    server        bigint,
    database_oid  oid not null,
    database_name text not null,
    schema_name   text not null,
    since         timestamptz not null default clock_timestamp()
);
comment on table {schema}.installation is 'the id of the installation, and the place for which this database was made: `jobwright adopt` changes it';
comment on column {schema}.installation.server is 'the system identifier; null = it could not be read';

do $$
declare
    identifier bigint;
    role record;
begin
    begin
        select system_identifier into identifier from pg_catalog.pg_control_system();
    exception
        when insufficient_privilege or undefined_function or feature_not_supported then null;
    end;
    insert into {schema}.installation (id, server, database_oid, database_name, schema_name)
    select pg_catalog.gen_random_uuid(), identifier, d.oid, d.datname, n.nspname
    from pg_catalog.pg_database d, pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where d.datname = pg_catalog.current_database() and c.oid = '{schema}.installation'::pg_catalog.regclass;
    -- Roles that see nodes so far register nodes or look at them. Others are granted it by `jobwright grants`.
    for role in
        select distinct a.grantee
        from pg_catalog.pg_class c
        cross join lateral pg_catalog.aclexplode(c.relacl) a
        where c.oid = '{schema}.node'::pg_catalog.regclass and a.privilege_type = 'SELECT' and a.grantee <> c.relowner
    loop
        execute pg_catalog.format('grant select on {schema}.installation to %s',
            case when role.grantee = 0 then 'public' else role.grantee::pg_catalog.regrole::text end);
    end loop;
end
$$;
