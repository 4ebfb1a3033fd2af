-- As prune_history.sql.
-- :limit::int8
with gone as (
    delete from {schema}.result
    where ctid = any (array(
        select ctid
        from {schema}.result
        where expires_at <= statement_timestamp()
        order by expires_at
        limit :limit
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
