-- Like idle_nodes.sql, for live nodes: those of the given ones that have nothing in flight right now.
-- :nodes::int8[]
select id from {schema}.node where id = any (:nodes::int8[]) and {schema}.node_is_idle(id)
