-- Nodes whose claims under way began before the rule was there. What comes later sees it.
select id from {schema}.node where dead_at is null
