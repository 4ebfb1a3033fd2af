-- Removes the oldest entries, a batch at a time, skipping those that another executor is pruning.
-- :age_us::int8, :limit::int8
with gone as (
    delete from {schema}.history
    where ctid = any (array(
        select ctid
        from {schema}.history
        where ended_at < statement_timestamp() - :age_us::float8 * interval '1 microsecond'
        order by ended_at, seq
        limit :limit
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
