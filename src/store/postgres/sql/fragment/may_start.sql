-- Whether a waiting row `c` may be claimed: it has not expired, no rule pauses it, and it was admitted if a limit covers it. The first
-- check of the rules runs once per statement: without rules a row costs no more than that.
(
    (c.options is null or (c.options ->> 'expires'::text)::int8 > (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
        or (c.options ? 'expires'::text) is not true)
    and (
        (select not exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null))
        or not exists (
            select from {schema}.rule r
            where (r.paused or not c.admitted and (r.running is not null or r.rate is not null)) and {covers:c}
        )
    )
)
