-- The nodes that should be alive; their files show whether they are.
select id, lease, dead_at is not null as dead from jobwright_node order by id
