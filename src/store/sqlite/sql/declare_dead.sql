-- Declares a node dead whose file was checked again once the write lock was held.
update jobwright_node set dead_at = :now where id = :node and dead_at is null
