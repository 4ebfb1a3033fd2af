-- The same for living nodes: those of these for which nothing is under way at this moment.
select id from {schema}.node where id = any ($1::int8[]) and {schema}.node_is_quiet(id)
