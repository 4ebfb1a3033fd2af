-- A node that stopped in good order is declared dead by itself. FOR UPDATE (not the weaker lock of an update), as in
-- expire_nodes.sql: it waits for claims of this node that are still under way, whose answers nobody waits for any more, and
-- claims that come later see that it is dead. So what is released next is all there will ever be.
with me as materialized (
    select id from {schema}.node where id = $1 and dead_at is null for update
)
update {schema}.node n set dead_at = clock_timestamp(), expires_at = clock_timestamp() from me where n.id = me.id
