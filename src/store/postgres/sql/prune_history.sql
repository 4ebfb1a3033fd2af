-- Removes the oldest entries, a batch at a time, skipping those that another executor is pruning, and passing over :offset rows that can't be removed
-- (store/postgres/around.rs). The application's triggers and foreign keys may wait for locks of others, so it waits briefly.
-- :age_us::int8, :limit::int8, :offset::int8
with gone as (
    delete from {schema}.history
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.history
        where ended_at < statement_timestamp() - :age_us::float8 * interval '1 microsecond'
        order by ended_at, seq
        limit :limit offset :offset
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
