-- name: has_migrations
-- A new file has no such table yet.
select exists (select 1 from sqlite_schema where type = 'table' and name = 'jobwright_migration')
