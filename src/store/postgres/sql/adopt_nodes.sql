-- Waits for claims that are under way: they began before the rule was there. What comes later sees it.
select id from {schema}.node where dead_at is null order by id for update
