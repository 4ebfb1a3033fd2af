-- Drops the counts of claims under limits that claims no longer count after a change of the rules. Jobs that run then hold permits
-- (permit_running.sql). Each key is judged by the rule that applies to it: its own, or the rule for all.
delete from {schema}.usage u
where not exists (
    select from (
        select r.scope, r.name, r.shares, r.running
        from {schema}.rule r
        where r.scope = case left(u.key, 2) when 'q:' then 'queue' else 'kind' end and r.name in (substr(u.key, 3), '*')
        order by r.name = '*'
        limit 1
    ) r
    where r.running is not null and {counted}
)
returning u.key
