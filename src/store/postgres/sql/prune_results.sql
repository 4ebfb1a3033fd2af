-- As prune_history.sql.
-- :limit::int8, :offset::int8
with gone as (
    delete from {schema}.result
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.result
        where expires_at <= statement_timestamp()
        order by expires_at
        limit :limit offset :offset
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
