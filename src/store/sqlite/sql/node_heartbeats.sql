-- The nodes that should be alive; their files show whether they are. The start of a node tells whether it was registered in this very file.
select id, lease, dead_at is not null as dead, started_at from jobwright_node order by id
