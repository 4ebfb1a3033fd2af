-- Alive until declared dead: a lease that just ran out can still be renewed.
select exists (select 1 from jobwright_node where id = :node and dead_at is null)
