-- Whether a waiting row `c` may be taken by a claim that counts: it has not expired, and nothing that covers it is paused or limits it, beside the
-- rules that this claim counts by: that of its queue ($15), that of its one kind ($16). The first look at the rules is asked once a statement.
(
    (c.terms is null or (c.terms ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
        or (c.terms ? 'expires') is not true)
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
