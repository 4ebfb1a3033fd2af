-- Declares nodes dead that were silent, if they still are: their heartbeat is the one that the monitor saw. Nobody waits here: a row that
-- somebody holds is passed over and looked at again in the next round. Claims under way are not waited for either; what they take is
-- released as long as the node is not forgotten, and that waits for them (forget_nodes.sql).
with silent as materialized (
    select n.id
    from {schema}.node n
    join unnest($1::int8[], $2::int8[]) as seen (id, beat) on n.id = seen.id and n.beat = seen.beat
    where n.dead_at is null
    for no key update of n skip locked
)
update {schema}.node n set dead_at = clock_timestamp() from silent where n.id = silent.id returning n.id
