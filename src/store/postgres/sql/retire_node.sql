-- A node that stops, or that fenced itself and lives, is declared dead by its own process. What it still owns is given back next, at no
-- attempt.
update {schema}.node n
set dead_at = coalesce(n.dead_at, moment.now), expires_at = least(n.expires_at, moment.now)
from (select clock_timestamp() as now) moment
where n.id = $1
