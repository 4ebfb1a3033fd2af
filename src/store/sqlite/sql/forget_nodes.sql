-- Removes dead nodes that own nothing any more. Owned rows are few, and have an index of their own.
delete from jobwright_node
where dead_at is not null and not exists (select 1 from jobwright_job where lock_owner = jobwright_node.id)
returning id
