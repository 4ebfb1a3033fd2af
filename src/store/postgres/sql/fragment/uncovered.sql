-- Whether a waiting row `c` may be taken by a claim that counts: it has not expired, and no rule pauses or limits it, apart from those that
-- this claim counts: that of its queue (:queue_counted), that of its one kind (:kind_counted). The first check of the rules runs once
-- per statement.
(
    (c.options is null or (c.options ->> 'expires'::text)::int8 > (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
        or (c.options ? 'expires'::text) is not true)
    and (
        (select not exists (
            select from {schema}.rule r
            where (r.paused or r.running is not null or r.rate is not null)
              and not (not r.paused and (select simple from quota) and {schema}.is_simple(r.scope, r.name, r.shares) and (r.scope = 'queue' and :queue_counted::bool or r.scope = 'kind' and :kind_counted::bool))
              and (r.scope <> 'queue' or r.name in (:queue, '*'))
              and (r.scope <> 'kind' or r.name = '*' or r.name = any (:kinds::text[]))
        ))
        or not exists (
            select from {schema}.rule r
            where (r.paused or r.running is not null or r.rate is not null)
              and not (not r.paused and (select simple from quota) and {schema}.is_simple(r.scope, r.name, r.shares) and (r.scope = 'queue' and :queue_counted::bool or r.scope = 'kind' and :kind_counted::bool))
              and {covers:c}
        )
    )
)
