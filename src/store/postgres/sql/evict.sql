-- Declares a node dead by hand. This waits for nothing: if a claim of the node is in flight, a monitor releases its jobs once it is
-- committed.
-- :node::int8
update {schema}.node set dead_at = coalesce(dead_at, clock_timestamp()), evicted = evicted or dead_at is null
where id = :node
returning id
