-- A node whose file was looked at again after the write lock was had.
update jobwright_node set dead_at = :now where id = :node and dead_at is null
