-- Moves due timers to waiting, earliest first, skipping those that another node is moving. Uses statement_timestamp() and not
-- clock_timestamp(), because only a stable value can be an index condition.
-- :limit::int8
with due as (
    delete from {schema}.timer_job
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.timer_job
        where due_at <= statement_timestamp()
        order by due_at
        limit :limit
        for update skip locked
    ))
    returning *
),
moved as (
    insert into {schema}.job ({carried}, version, attempt, errors, options)
    select {carried}, version::int8 & 2147483647::int8, attempt, errors, options
    from due
    on conflict (id) do nothing
    returning queue
)
select (select count(*) from due) as jobs,
       (select array_agg(distinct queue) from moved) as queues,
       -- A full batch means that there may be more: run again at once.
       case when (select count(*) from due) = :limit then 0
            else (select (extract(epoch from min(due_at) - statement_timestamp())::float8 * 1000000::float8)::int8
                  from {schema}.timer_job
                  where due_at > statement_timestamp() and due_at < 'infinity')
       end as next_us,
       -- These jobs wait for admission now.
       exists (select from due where options ? 'group'::text) as blocked
