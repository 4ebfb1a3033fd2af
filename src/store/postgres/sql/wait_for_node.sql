-- Waits until no claim or commit of a node is in flight.
-- :node::int8
select pg_advisory_xact_lock({schema}.node_locks(), :node::int8::integer)
