-- A page of permits, in the order of their primary key: those whose holder is in no table, and the last one, if there may be more behind it.
-- Triggers release a permit with its holder, but not where a table was truncated, restored alone, or written with triggers off. One statement,
-- so a job that moves from table to table is in one of them. The lease of a node is left to lost_terminating.sql.
-- :after_holder::uuid, :after_key::text, :limit::int8
with page as materialized (
    select job_id, key, node from {schema}.permit where (job_id, key) > (:after_holder, :after_key) order by job_id, key limit :limit
)
select job_id, key, true as is_orphaned
from page p
where node is null
  and {orphaned:p}
union all
select job_id, key, false
from (select job_id, key from page order by job_id desc, key desc limit 1) last
where (select count(*) from page) = :limit
