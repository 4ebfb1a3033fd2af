-- Removes unique keys whose period is over. Taking such a key does not wait for that. The offset and the brief wait are as in prune_history.sql.
-- :limit::int8, :offset::int8
with gone as (
    delete from {schema}.unique_key
    where {briefly} and ctid = any (array(
        select ctid from {schema}.unique_key where expires_at <= statement_timestamp() order by expires_at limit :limit offset :offset for update skip locked
    ))
    returning 1
)
select count(*) from gone
