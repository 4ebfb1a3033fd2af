-- By this host's clock, the only one there is.
update jobwright_node set dead_at = :now where dead_at is null and expires_at <= :now
