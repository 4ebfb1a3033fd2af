-- Counts one more heartbeat. A node that was declared dead stays dead.
update {schema}.node set heartbeats = heartbeats + 1, expires_at = clock_timestamp() + lease where id = $1 and dead_at is null returning id
