-- Whether there is anything to look at, and when there will be. What waits at gates need not be asked: whatever came to a
-- gate has written an opening.
select exists (select from {schema}.opening where opens_at <= statement_timestamp()),
       exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null),
       (select (extract(epoch from min(opens_at) - statement_timestamp()) * 1000000)::int8
        from {schema}.opening
        where opens_at > statement_timestamp()),
       (select min(aging) from {schema}.rule),
       -- Which rules claims count by themselves, and whether there are others.
       (select array_agg(r.scope || ':' || r.name) from {schema}.rule r
        where {counted} and (r.running is not null or r.rate is not null)),
       exists (select from {schema}.rule r
               where r.paused or (r.running is not null or r.rate is not null) and not {counted})
