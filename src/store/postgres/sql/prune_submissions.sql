-- Removes old submissions, a batch at a time, skipping those that another executor is pruning.
-- The offset and the brief wait are as in prune_history.sql.
-- :age_us::int8, :limit::int8, :offset::int8
with gone as (
    delete from {schema}.submission
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.submission
        where received_at < statement_timestamp() - :age_us::float8 * interval '1 microsecond'
        order by received_at
        limit :limit offset :offset
        for update skip locked
    ))
    returning id
)
select count(*) from gone
