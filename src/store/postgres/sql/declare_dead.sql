-- Declares silent nodes dead, if they still are: their heartbeat is the one that the monitor saw. This waits for nothing: a locked row is
-- skipped and checked again next time. Claims in flight are not waited for either. What they take is released as long as the node is not
-- forgotten, and forgetting it waits for them (forget_nodes.sql).
-- :nodes::int8[], :heartbeats::int8[]
with silent as materialized (
    select n.id
    from {schema}.node n
    join unnest(:nodes::int8[], :heartbeats::int8[]) as seen (id, heartbeats) on n.id = seen.id and n.heartbeats = seen.heartbeats
    where n.dead_at is null
    for no key update of n skip locked
)
update {schema}.node n set dead_at = clock_timestamp() from silent where n.id = silent.id returning n.id
