-- No role but those that execute jobs can make a claim wait, or keep a dead node from being forgotten.
-- A claim holds its node by a shared advisory lock, because a lock on the row of the node would cost a write and multixacts (0001_schema.sql). But
-- any role that may connect can take any advisory lock, and pg_locks shows the keys. So a claim never waits for one: if another session has the lock
-- exclusively, it locks the row of the node instead, which needs rights. That does not conflict with heartbeats.
-- In a transaction with an old snapshot such a lock would fail because of heartbeats. Such a one, which is never a claim, waits.
create or replace function {schema}.hold_node(node bigint) returns bigint
language plpgsql volatile
as $$
begin
    if node not between 1 and 2147483647 then
        return null;
    end if;
    if not pg_catalog.pg_try_advisory_xact_lock_shared({schema}.node_locks(), node::integer) then
        if pg_catalog.current_setting('transaction_isolation') = 'read committed' then
            perform from {schema}.node n where n.id = hold_node.node for key share;
        else
            perform pg_catalog.pg_advisory_xact_lock_shared({schema}.node_locks(), node::integer);
        end if;
    end if;
    return (select n.id from {schema}.node n where n.id = hold_node.node and n.dead_at is null);
end
$$;

-- Returns whether a dead node can own nothing more: no transaction holds it, and a later claim finds it dead. It does not wait, and takes no advisory
-- lock: it looks who has it. The locks of roles that could not claim anything, whatever role they
-- change to, mean nothing. A prepared transaction has no session, and counts.
create or replace function {schema}.node_is_idle(node bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (
        select
        from pg_catalog.pg_locks l
        left join pg_catalog.pg_stat_activity a on a.pid = l.pid
        where l.locktype = 'advisory' and l.granted and l.objsubid = 2
          and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
          and l.classid::bigint = {schema}.node_locks()::bigint & 4294967295 and l.objid::bigint = node_is_idle.node
          and l.pid is distinct from pg_backend_pid()
          and (a.usesysid is null or pg_has_role(a.usesysid, (select c.relowner from pg_catalog.pg_class c where c.oid = '{schema}.job'::regclass), 'member')
               or exists (select from pg_catalog.pg_class c cross join lateral aclexplode(c.relacl) p
                          where c.oid = '{schema}.job'::regclass and p.privilege_type = 'UPDATE'
                            and (p.grantee = 0 or pg_has_role(a.usesysid, p.grantee, 'member'))))
    ) then
        return false;
    end if;
    perform from {schema}.node n where n.id = node_is_idle.node for update skip locked;
    return found;
end
$$;
