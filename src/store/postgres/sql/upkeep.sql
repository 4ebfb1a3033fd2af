-- Whether there is anything to do beside running jobs, now or within $1 microseconds: one step in an index for each table. All that an
-- idle node asks but for its claims and its lease. It says what time it is too: a clock that was set back is noticed by that. `stop` is stable, so that it can be an index condition.
with moment as (
    select statement_timestamp() + $1 * interval '1 microsecond' as stop,
           (extract(epoch from statement_timestamp()) * 1000000)::int8 + $1 as stop_us
)
select exists (select from {schema}.timer_job where due_at <= (select stop from moment)),
       exists (select from {schema}.job
               where terms ? 'expires' and lock_owner is null and (terms ->> 'expires')::int8 <= (select stop_us from moment))
           or exists (select from {schema}.timer_job
                      where terms ? 'expires' and (terms ->> 'expires')::int8 <= (select stop_us from moment))
           or exists (select from {schema}.unique_key where expires_at <= statement_timestamp()),
       exists (select from {schema}.opening where opens_at <= (select stop from moment))
           or exists (select from {schema}.rule
                      where paused or running is not null or rate is not null or aging is not null),
       exists (select from {schema}.schedule where not paused and next_at <= (select stop from moment)),
       exists (select from {schema}.external_job where lease_until <= statement_timestamp())
           or exists (select from {schema}.ending where until <= statement_timestamp()),
       clock_timestamp()
