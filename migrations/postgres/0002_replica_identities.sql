-- Every table gets a replica identity: the columns by which logical decoding names the row that was changed or removed. Without one, PostgreSQL
-- refuses each update and each delete of a table as soon as any publication covers it, and `create publication ... for all tables` covers all.
-- Change data capture, blue/green deployments, copies to a newer major version and most tools for upgrades create such a publication.
--
-- The tables of jobs get a primary key by the unique index that they have on `id`, under its name: some tools ask for a primary key and not for a
-- replica identity. Only the catalogue changes, no row is read or written, and with `wal_level` below `logical` the log stays the same. A step does
-- nothing where the table has a primary key, because this change was interrupted, or because the table's owner has made one.
--
-- Each table is locked for a moment, in a transaction of its own.
do $$ begin
    if not exists (select from pg_catalog.pg_constraint where conrelid = '{schema}.job'::regclass and contype = 'p') then
        alter table {schema}.job add constraint job_id primary key using index job_id;
    end if;
end $$;
-- ==== next transaction ====
do $$ begin
    if not exists (select from pg_catalog.pg_constraint where conrelid = '{schema}.timer_job'::regclass and contype = 'p') then
        alter table {schema}.timer_job add constraint timer_job_id primary key using index timer_job_id;
    end if;
end $$;
-- ==== next transaction ====
do $$ begin
    if not exists (select from pg_catalog.pg_constraint where conrelid = '{schema}.suspended_job'::regclass and contype = 'p') then
        alter table {schema}.suspended_job add constraint suspended_job_id primary key using index suspended_job_id;
    end if;
end $$;
-- ==== next transaction ====
do $$ begin
    if not exists (select from pg_catalog.pg_constraint where conrelid = '{schema}.dead_letter_job'::regclass and contype = 'p') then
        alter table {schema}.dead_letter_job add constraint dead_letter_job_id primary key using index dead_letter_job_id;
    end if;
end $$;
-- ==== next transaction ====
do $$ begin
    if not exists (select from pg_catalog.pg_constraint where conrelid = '{schema}.external_job'::regclass and contype = 'p') then
        alter table {schema}.external_job add constraint external_job_id primary key using index external_job_id;
    end if;
end $$;
-- ==== next transaction ====
-- Rows of this table and the next two have nothing that tells one from another that is alike, so the whole row is their identity.
alter table {schema}.unblock replica identity full;
-- ==== next transaction ====
alter table {schema}.rate_log replica identity full;
-- ==== next transaction ====
alter table {schema}.history replica identity full;
