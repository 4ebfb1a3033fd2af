-- Whether an admission pass has work now, and when it will have some. Blocked rows need no check: every event that concerns a key has
-- written an unblock.
select exists (select from {schema}.unblock where unblock_at <= statement_timestamp()) as unblocks,
       exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null) as limited,
       (select (extract(epoch from min(unblock_at) - statement_timestamp())::float8 * 1000000::float8)::int8
        from {schema}.unblock
        where unblock_at > statement_timestamp() and unblock_at < 'infinity') as next_us,
       (select min(aging) from {schema}.rule) as aging_us,
       -- The rules that claims count themselves, and whether there are others.
       (select array_agg(r.scope || ':' || r.name) from {schema}.rule r
        where {counted} and (r.running is not null or r.rate is not null)) as counted,
       exists (select from {schema}.rule r
               where r.paused or (r.running is not null or r.rate is not null) and not {counted}) as uncounted,
       -- Whether a change of the rules has still to hand over what claims counted before (rules.rs). Only where claims no longer count does
       -- that make a limit smaller, and only then are these rows read: one for each node and limit, but each claim leaves a dead version.
       exists (select from {schema}.rule r where (r.running is not null or r.rate is not null) and not {counted})
           and exists (select from {schema}.usage u where {uncounted_usage}) as unfinished
