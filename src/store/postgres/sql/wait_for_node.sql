-- Waits until no claim or commit of a node is in flight, for a second at a time: any role may hold this lock, and then the caller looks whether the
-- node is idle (idle_of.sql).
-- :node::int8
select set_config('lock_timeout', '1000', true), pg_advisory_xact_lock({schema}.node_locks(), :node::int8::integer)
