-- Declares the node dead first. What it owns is released next, and then it is forgotten, all in one transaction.
update jobwright_node set dead_at = coalesce(dead_at, :now) where id = :node
