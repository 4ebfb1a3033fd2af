-- Whether a waiting row `c` may be taken by a claim that counts: it has not expired, and no rule pauses or limits it, apart from those that
-- this claim counts: that of its queue ($15), that of its one kind ($16). The first check of the rules runs once per statement.
(
    (c.options is null or (c.options ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
        or (c.options ? 'expires') is not true)
    and (
        (select not exists (
            select from {schema}.rule r
            where (r.paused or r.running is not null or r.rate is not null)
              and not (not r.paused and (select simple from quota) and {schema}.is_simple(r.scope, r.name, r.shares) and (r.scope = 'queue' and $15::bool or r.scope = 'kind' and $16::bool))
              and (r.scope <> 'queue' or r.name in ($2, '*'))
              and (r.scope <> 'kind' or r.name = '*' or r.name = any ($7::text[]))
        ))
        or not exists (
            select from {schema}.rule r
            where (r.paused or r.running is not null or r.rate is not null)
              and not (not r.paused and (select simple from quota) and {schema}.is_simple(r.scope, r.name, r.shares) and (r.scope = 'queue' and $15::bool or r.scope = 'kind' and $16::bool))
              and {covers:c}
        )
    )
)
