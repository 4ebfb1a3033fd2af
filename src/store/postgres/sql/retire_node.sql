-- Declares a node dead for its own process, when that stops, or has fenced itself and lives on. What it still owns is released next, at no
-- attempt.
-- :node::int8
update {schema}.node n
set dead_at = coalesce(n.dead_at, moment.now), expires_at = least(n.expires_at, moment.now)
from (select clock_timestamp() as now) moment
where n.id = :node
