-- Whether claims keep the count `u` of `usage` no more. Each key is judged by the rule that applies to it: its own, or the rule for all.
not exists (
    select from (
        select r.scope, r.name, r.shares, r.running
        from {schema}.rule r
        where r.scope = case left(u.key, 2) when 'q:' then 'queue' else 'kind' end and r.name in (substr(u.key, 3), '*')
        order by r.name = '*'
        limit 1
    ) r
    where r.running is not null and {counted}
)
