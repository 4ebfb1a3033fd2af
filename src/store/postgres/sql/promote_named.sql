-- Moves these timers to waiting, if they are due. Like promote.sql, which failed over some of them.
-- :ids::uuid[]
with due as (
    delete from {schema}.timer_job
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.timer_job
        where id = any (:ids::uuid[]) and due_at <= statement_timestamp()
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
       (select (extract(epoch from min(due_at) - statement_timestamp())::float8 * 1000000::float8)::int8
        from {schema}.timer_job
        where due_at > statement_timestamp() and due_at < 'infinity') as next_us,
       exists (select from due where options ? 'group'::text) as blocked
