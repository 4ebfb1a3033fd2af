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
