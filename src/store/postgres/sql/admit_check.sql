-- Whether an admission pass has work now, and when it will have some. Blocked rows need no check: every event that concerns a key has
-- written an unblock.
select exists (select from {schema}.unblock where unblock_at <= statement_timestamp()),
       exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null),
       (select (extract(epoch from min(unblock_at) - statement_timestamp()) * 1000000)::int8
        from {schema}.unblock
        where unblock_at > statement_timestamp()),
       (select min(aging) from {schema}.rule),
       -- The rules that claims count themselves, and whether there are others.
       (select array_agg(r.scope || ':' || r.name) from {schema}.rule r
        where {counted} and (r.running is not null or r.rate is not null)),
       exists (select from {schema}.rule r
               where r.paused or (r.running is not null or r.rate is not null) and not {counted})
