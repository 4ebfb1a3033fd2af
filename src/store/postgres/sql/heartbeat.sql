-- Renews a lease by this server's clock. A node that was declared dead stays dead.
update {schema}.node set expires_at = clock_timestamp() + lease where id = $1 and dead_at is null returning id
