-- Nothing revives a node that was declared dead.
update jobwright_node set expires_at = :now + lease where id = :node and dead_at is null
