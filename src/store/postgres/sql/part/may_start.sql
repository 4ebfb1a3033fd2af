-- Whether a waiting row `c` may be taken: it has not expired, nothing that covers it is paused, and it was admitted if a limit
-- covers it. The first look at the rules is asked once a statement: without rules a row costs no more than that.
(
    (c.terms is null or (c.terms ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
        or (c.terms ? 'expires') is not true)
    and (
        (select not exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null))
        or not exists (
            select from {schema}.rule r
            where (r.paused or not c.admitted and (r.running is not null or r.rate is not null)) and {covers:c}
        )
    )
)
