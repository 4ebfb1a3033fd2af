-- Dead first: what it owns is given back next, then it is forgotten, all in one transaction.
update jobwright_node set dead_at = coalesce(dead_at, :now) where id = :node
