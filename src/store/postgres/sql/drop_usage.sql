-- Forgets what claims counted under limits that they do not count any more, because of a change of the rules: what runs then holds slots (adopt.sql).
-- By the rule that holds for each key: its own, or that of all.
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
