-- As prune_history.sql.
with gone as (
    delete from {schema}.result
    where ctid = any (array(
        select ctid
        from {schema}.result
        where expires_at <= statement_timestamp()
        order by expires_at
        limit $1
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
