-- name: create_migration
-- Not part of a migration, because this table records the migrations.
create table if not exists jobwright_migration (
    version    integer primary key,
    name       text not null,
    checksum   text not null,
    -- The oldest schema version whose builds run on this one.
    min_compatible integer not null,
    -- Whether all rows are filled in. Until then the change does not count as applied.
    is_filled  integer not null,
    applied_at integer not null
) strict

-- name: applied
-- Applied migrations, in order.
select version, name, checksum, applied_at, min_compatible, is_filled from jobwright_migration order by version

-- name: record_migration
-- Runs in the same transaction as the change itself.
insert into jobwright_migration (version, name, checksum, min_compatible, is_filled, applied_at)
values (:version, :name, :checksum, :min_compatible, :is_filled, :now)
on conflict (version) do update set is_filled = excluded.is_filled

-- name: has_tables_of_states
-- Files of builds from before the jobs of all states had one table.
select exists (select 1 from sqlite_schema where type = 'table' and name = 'jobwright_timer_job')
