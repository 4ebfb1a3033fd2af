-- Removes starts that are older than the period of their key's rate (that of its own rule, or else of the rule for all), and those of keys
-- without a rate. Keeps a minute more than that, for admission passes in flight. :limit: the highest number of rows.
-- The offset and the brief wait are as in prune_history.sql.
-- :limit::int8, :offset::int8
with rules as materialized (
    select case scope when 'key' then 'l:' else left(scope, 1) || ':' end as prefix, name, coalesce(period, 0) as period
    from {schema}.rule
),
gone as (
    delete from {schema}.rate_log
    where {briefly} and ctid = any (array(
        select l.ctid
        from {schema}.rate_log l
        left join rules own on own.prefix || own.name = l.key
        left join rules each on each.prefix = left(l.key, 2) and each.name = '*'
        where l.at < statement_timestamp() - interval '1 minute' - coalesce(own.period, each.period, 0)::float8 * interval '1 microsecond'
        limit :limit offset :offset
        for update of l skip locked
    ))
    returning 1
)
select count(*) from gone
