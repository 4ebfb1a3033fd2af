-- Removes dead nodes that own nothing any more.
delete from {schema}.node n
where n.dead_at is not null and not exists (select from {schema}.job j where j.lock_owner = n.id)
