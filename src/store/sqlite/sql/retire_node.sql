-- Dead rather than gone while it owns something: release_lost then knows its name.
update jobwright_node set dead_at = coalesce(dead_at, :now) where id = :node
