-- Declares a node dead by hand. FOR UPDATE (not the weaker lock of an update), as in expire_nodes.sql: it waits for claims of this node
-- that are under way, and claims that come later see that it is dead. Its lease keeps its end: that tells this death from others.
with me as materialized (
    select id from {schema}.node where id = $1 for update
),
declared as (
    update {schema}.node n set dead_at = coalesce(n.dead_at, clock_timestamp()) from me where n.id = me.id
)
select id from me
