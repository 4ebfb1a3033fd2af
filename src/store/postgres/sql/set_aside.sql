-- The last resort for a row that can't be read and not even be moved: it goes to a queue of its own that nobody claims, where its old name is
-- told. What it holds is not touched.
update {schema}.job j
set queue = left('unreadable:' || j.queue, 100)
where j.id = $1 and j.version = $2 and j.lock_owner is null and j.queue not like 'unreadable:%'
returning j.id
