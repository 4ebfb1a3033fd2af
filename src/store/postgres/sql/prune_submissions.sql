-- Removes old submissions, a batch at a time, skipping those that another executor is pruning.
-- :age_us::int8, :limit::int8
with gone as (
    delete from {schema}.submission
    where ctid = any (array(
        select ctid
        from {schema}.submission
        where received_at < statement_timestamp() - :age_us::float8 * interval '1 microsecond'
        order by received_at
        limit :limit
        for update skip locked
    ))
    returning id
)
select count(*) from gone
