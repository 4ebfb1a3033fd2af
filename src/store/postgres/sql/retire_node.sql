-- A node that stopped in good order is declared dead by itself; forget_nodes removes it once it owns nothing.
update {schema}.node set dead_at = clock_timestamp(), expires_at = clock_timestamp() where id = $1 and dead_at is null
