-- Not in a migration, because it says which migrations there are.
create table if not exists jobwright_migration (
    version    integer primary key,
    name       text not null,
    checksum   text not null,
    applied_at integer not null
) strict
