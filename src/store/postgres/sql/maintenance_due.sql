-- Whether maintenance work is due, now or within :ahead_us microseconds: one index step per table. An idle node asks nothing else, apart
-- from its claims and its lease. The answer includes the time, which shows whether a clock was set back. `stop` is stable, so that it
-- can be an index condition. The key of suspects is a subselect, so that no index on all blocked jobs is possible (suspects.sql).
-- :ahead_us::int8
with moment as (
    select statement_timestamp() + :ahead_us::float8 * interval '1 microsecond' as stop,
           (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8 + :ahead_us as stop_us
)
select exists (select from {schema}.timer_job where due_at <= (select stop from moment)) as timers,
       exists (select from {schema}.job
               where options ? 'expires'::text and lock_owner is null and (options ->> 'expires'::text)::int8 <= (select stop_us from moment))
           or exists (select from {schema}.timer_job
                      where options ? 'expires'::text and (options ->> 'expires'::text)::int8 <= (select stop_us from moment))
           or exists (select from {schema}.unique_key where expires_at <= statement_timestamp()) as expiry,
       exists (select from {schema}.unblock where unblock_at <= (select stop from moment))
           or exists (select from {schema}.rule
                      where paused or running is not null or rate is not null or aging is not null) as admission,
       exists (select from {schema}.schedule where not paused and next_at <= (select stop from moment)) as schedules,
       exists (select from {schema}.external_job where lease_until <= statement_timestamp())
           or exists (select from {schema}.terminating_handler where until <= statement_timestamp()) as external,
       exists (select from {schema}.job where blocked_on = (select 'alone'::text) and share = '' and lock_owner is null) as suspects,
       clock_timestamp() as now
