-- No role but those that execute jobs can keep jobs under a counted limit from starting.
-- Whoever counts under a limit excludes the others by a lock. Any role that may connect can take any advisory lock, so the lock is a row of a table now,
-- which needs rights. A locked row leaves no dead version behind.

-- A row is the lock of a limit that claims count (src/store/postgres/counting.rs): of a hash, which two limits may share. It is never removed.
create table {schema}.limit_lock (lock bigint primary key);

-- Roles that count limits so far may use it.
do $$
declare
    role record;
begin
    for role in
        select a.grantee, string_agg(distinct a.privilege_type, ', ') as privileges
        from pg_catalog.pg_class c
        cross join lateral pg_catalog.aclexplode(c.relacl) a
        where c.oid = '{schema}.usage'::regclass and a.privilege_type in ('SELECT', 'INSERT', 'UPDATE') and a.grantee <> 0 and a.grantee <> c.relowner
        group by a.grantee
    loop
        execute format('grant %s on {schema}.limit_lock to %s', role.privileges, role.grantee::regrole);
    end loop;
end
$$;

-- What counts at this moment by the old locks ends first: admission passes, then claims.
do $$ begin perform from {schema}.admission for update; end $$;
lock table {schema}.usage in access exclusive mode;

create or replace function {schema}.lock_limits(locks bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $lock$
declare
    wanted bigint;
begin
    for wanted in select distinct l from unnest(locks) l order by l loop
        loop
            perform from {schema}.limit_lock k where k.lock = wanted for update;
            exit when found;
            insert into {schema}.limit_lock (lock) values (wanted) on conflict (lock) do nothing;
        end loop;
    end loop;
end
$lock$;
