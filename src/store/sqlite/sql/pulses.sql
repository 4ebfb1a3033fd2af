-- Who is to be alive; whether they are, their files tell.
select id, lease, dead_at is not null from jobwright_node order by id
