-- Removes dead nodes that own nothing, as a walk found after they had become idle (idle_nodes.sql). Their counts under limits that claims
-- count go with them, and not before: a row that could not be released may have been locked by its handler, whose commit was in flight.
-- :nodes::int8[]
with gone as (
    delete from {schema}.node where id = any (:nodes::int8[]) and dead_at is not null returning id
),
freed as (
    delete from {schema}.usage where node in (select id from gone) returning key
)
insert into {schema}.unblock (key) select distinct key from freed
