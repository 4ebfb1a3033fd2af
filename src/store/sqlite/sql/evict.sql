-- By hand. A node that was dead before died of something else.
update jobwright_node set evicted = evicted or dead_at is null, dead_at = coalesce(dead_at, :now) where id = :node
