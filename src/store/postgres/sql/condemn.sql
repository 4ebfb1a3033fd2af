-- Declares a node dead by hand. It waits for nobody: a claim of the node that is under way is released by a monitor once it is committed.
update {schema}.node set dead_at = coalesce(dead_at, clock_timestamp()), condemned = condemned or dead_at is null
where id = $1
returning id
