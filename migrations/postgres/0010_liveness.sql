-- Who lives is told by observation: each heartbeat counts one more, and a monitor that saw the same number for a whole lease of its own
-- clock declares the node dead. No clock of a server takes part. `expires_at` is for people from here on.
alter table {schema}.node add column beat bigint not null default 0;
alter table {schema}.node add column condemned boolean not null default false;

comment on column {schema}.node.beat is 'heartbeats so far; a monitor that sees it unchanged for a lease declares the node dead';
comment on column {schema}.node.expires_at is 'when its lease ends by the clock of this server; shown to people, decides nothing';
comment on column {schema}.node.condemned is 'declared dead by hand';

-- What a node id stands for among the advisory locks of this database, beside others' locks and other schemas.
create function {schema}.node_locks() returns integer
language sql immutable parallel safe
as $$ select hashtext('{schema}.node') $$;

-- Keeps a node from being forgotten until the end of the transaction, and tells whether it may own jobs: its id, or null if it is unknown or
-- dead. An advisory lock, because a lock on the node's row would need a multixact whenever two commits of a node overlap, and a write besides.
-- Volatile, so that the look comes after the lock and sees what was committed while this waited: in the statement's own snapshot a node
-- could look alive that was declared dead, had its rows released and was forgotten.
create function {schema}.hold_node(node bigint) returns bigint
language plpgsql volatile
as $$
begin
    if node not between 1 and 2147483647 then
        return null;
    end if;
    perform pg_advisory_xact_lock_shared({schema}.node_locks(), node::integer);
    return (select n.id from {schema}.node n where n.id = hold_node.node and n.dead_at is null);
end
$$;

-- Says that a node that wants to claim may not. A function, because a statement can't raise an error otherwise.
create function {schema}.refuse_node(node bigint) returns bigint
language plpgsql volatile
as $$
begin
    raise exception 'node % is unknown here, or was declared dead', node using errcode = 'JW001';
end
$$;

-- Whether nothing can become owned by a dead node any more: no transaction holds it. Whoever claims later finds it dead.
create function {schema}.node_is_quiet(node bigint) returns boolean
language sql volatile
as $$ select pg_try_advisory_xact_lock({schema}.node_locks(), node::integer) $$;
