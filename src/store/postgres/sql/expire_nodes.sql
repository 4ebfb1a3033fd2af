-- Declares nodes dead whose lease ran out. FOR UPDATE (not the weaker lock of an update) waits for claims of that node that
-- are under way, and claims that come later see that it is dead. Nodes that are dead already are returned too, so that a
-- monitor finishes what one that died itself began.
with late as materialized (
    select id
    from {schema}.node
    where dead_at is null and expires_at < statement_timestamp()
    order by id
    for update
),
declared as (
    update {schema}.node n set dead_at = clock_timestamp() from late where n.id = late.id returning n.id
)
select id from declared
union
select id from {schema}.node where dead_at is not null
