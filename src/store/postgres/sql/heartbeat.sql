-- Counts one more heartbeat. A node that was declared dead stays dead.
-- :node::int8
update {schema}.node set heartbeats = heartbeats + 1, expires_at = clock_timestamp() + lease where id = :node and dead_at is null returning id
