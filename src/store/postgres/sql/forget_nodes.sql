-- Removes dead nodes of which a walk found that they own nothing, after they had become quiet (quiet_nodes.sql).
delete from {schema}.node where id = any ($1::int8[]) and dead_at is not null
