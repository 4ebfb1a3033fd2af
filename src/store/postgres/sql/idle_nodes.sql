-- Dead nodes that can own nothing more: no claim or commit of theirs is in flight, and a later one finds them dead. Each node's lock is
-- tried and not waited for. Runs before a walk that looks for what they own.
select id from {schema}.node where dead_at is not null and {schema}.node_is_idle(id)
