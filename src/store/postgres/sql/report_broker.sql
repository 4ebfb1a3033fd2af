-- Shown in the status; nothing depends on it.
-- :node::int8, :broker::text
update {schema}.node set broker = :broker where id = :node
