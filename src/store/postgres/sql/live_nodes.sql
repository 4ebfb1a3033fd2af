-- Nodes that may have claims in flight from before the rule was set. Later claims see it.
select id from {schema}.node where dead_at is null
