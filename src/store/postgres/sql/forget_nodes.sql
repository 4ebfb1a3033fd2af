-- Removes dead nodes of which a walk found that they own nothing, after they had become quiet (quiet_nodes.sql). What they ran under limits that claims
-- count goes with them, and not before: who kept a row from being released may have been its handler, whose commit was under way.
with gone as (
    delete from {schema}.node where id = any ($1::int8[]) and dead_at is not null returning id
),
freed as (
    delete from {schema}.usage where node in (select id from gone) returning key
)
insert into {schema}.opening (key) select distinct key from freed
