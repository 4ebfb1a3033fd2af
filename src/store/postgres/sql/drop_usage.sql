-- Drops the counts of claims under limits that claims no longer count after a change of the rules. Jobs that run then hold permits
-- (permit_running.sql, in the same transaction).
delete from {schema}.usage u
where {uncounted_usage}
returning u.key
