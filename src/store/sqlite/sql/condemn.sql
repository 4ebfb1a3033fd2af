-- By hand. Whoever was dead already died of something else.
update jobwright_node set condemned = condemned or dead_at is null, dead_at = coalesce(dead_at, :now) where id = :node
