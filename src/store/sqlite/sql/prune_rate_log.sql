-- Removes starts that are older than the period of their key's rate (that of its own rule, or else of the rule for all), and those of keys
-- without a rate.
with rules as materialized (
    select case scope when 'key' then 'l:' else substr(scope, 1, 1) || ':' end as prefix, name, coalesce(period, 0) as period
    from jobwright_rule
)
delete from jobwright_rate_log
where rowid in (
    select l.rowid
    from jobwright_rate_log l
    left join rules own on own.prefix || own.name = l.key
    left join rules every on every.prefix = substr(l.key, 1, 2) and every.name = '*'
    where l.at < :now - 60000000 - coalesce(own.period, every.period, 0)
    limit :limit
)
