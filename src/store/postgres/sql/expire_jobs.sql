-- Makes dead letters of jobs that may not start any more. Owned rows are left alone, and so are locked ones, which are just being claimed.
-- Uses statement_timestamp() and not clock_timestamp(), because only a stable value can be an index condition.
-- :limit::int8, :reason::text
with gone_waiting as (
    delete from {schema}.job
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.job
        where options ? 'expires'::text and lock_owner is null
          and (options ->> 'expires'::text)::int8 <= (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
        order by (options ->> 'expires'::text)::int8
        limit :limit
        for update skip locked
    ))
    returning {carried}, version, attempt, errors, options
),
gone_timers as (
    delete from {schema}.timer_job
    where ctid = any (array(
        select ctid
        from {schema}.timer_job
        where options ? 'expires'::text
          and (options ->> 'expires'::text)::int8 <= (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
        order by (options ->> 'expires'::text)::int8
        limit :limit
        for update skip locked
    ))
    returning {carried}, version, attempt, errors, options
),
gone as (
    select * from gone_waiting union all select * from gone_timers
),
dead_lettered as (
    insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
    select {carried}, version, attempt, :reason, errors, options
    from gone
    on conflict (id) do nothing
)
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, tenant)
--{failed}     select id, seq, kind, queue, 'expired', attempt, created_at, options ->> 'tenant'::text from gone
--{failed} )
select (select count(*) from gone) as jobs,
       -- A full batch means that there may be more: run again at once.
       case when :limit in ((select count(*) from gone_waiting), (select count(*) from gone_timers)) then 0
            else (select least(
                      (select min((options ->> 'expires'::text)::int8) from {schema}.job
                       where options ? 'expires'::text and (options ->> 'expires'::text)::int8 > (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8),
                      (select min((options ->> 'expires'::text)::int8) from {schema}.timer_job
                       where options ? 'expires'::text and (options ->> 'expires'::text)::int8 > (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8)
                  ) - (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8)
       end as next_us
