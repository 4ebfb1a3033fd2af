-- One row about how many connections this role may have, for any role; null = no limit. The server does not apply the limits of roles and
-- databases to superusers. `reserved_connections` is new in PostgreSQL 16.
select case when not r.rolsuper and r.rolconnlimit >= 0 then r.rolconnlimit end as role_limit,
       case when not r.rolsuper and d.datconnlimit >= 0 then d.datconnlimit end as database_limit,
       current_setting('max_connections')::int4 - current_setting('superuser_reserved_connections')::int4
           - coalesce(current_setting('reserved_connections', true)::int4, 0) as server_limit
from pg_catalog.pg_roles r cross join pg_catalog.pg_database d
where r.rolname = current_user and d.datname = current_database()
