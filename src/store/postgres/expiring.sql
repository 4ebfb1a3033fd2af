-- name: expire_jobs
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

-- name: expired
-- The rows that `expire_jobs` would make dead letters, without their content: used when it can't move them all.
-- :limit::int8
(
    select id, seq, version::int8 as version, false as is_timer
    from {schema}.job
    where options ? 'expires'::text and lock_owner is null
      and (options ->> 'expires'::text)::int8 <= (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
    order by (options ->> 'expires'::text)::int8
    limit :limit
)
union all
(
    select id, seq, version, true
    from {schema}.timer_job
    where options ? 'expires'::text
      and (options ->> 'expires'::text)::int8 <= (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
    order by (options ->> 'expires'::text)::int8
    limit :limit
)

-- name: expire_keys
-- Removes unique keys whose period is over. Taking such a key does not wait for that. The offset and the brief wait are as in `prune_history`.
-- :limit::int8, :offset::int8
with gone as (
    delete from {schema}.unique_key
    where {briefly} and ctid = any (array(
        select ctid from {schema}.unique_key where expires_at <= statement_timestamp() order by expires_at limit :limit offset :offset for update skip locked
    ))
    returning 1
)
select count(*) from gone
