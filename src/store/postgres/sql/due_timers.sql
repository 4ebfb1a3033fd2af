-- The timers that promote.sql would move, without their content: used to find the one that it can't move.
-- :limit::int8
select id, seq
from {schema}.timer_job
where due_at <= statement_timestamp()
order by due_at
limit :limit
