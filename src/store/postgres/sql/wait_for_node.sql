-- Waits until no claim or commit of a node is in flight.
select pg_advisory_xact_lock({schema}.node_locks(), $1::int8::integer)
