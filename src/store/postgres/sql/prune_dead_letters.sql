-- Removes the oldest dead letters, a batch at a time, skipping those that are locked by another executor or by a retry. Triggers release
-- what they held.
-- The offset and the brief wait are as in prune_history.sql.
-- :age_us::int8, :limit::int8, :offset::int8
with gone as (
    delete from {schema}.dead_letter_job
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.dead_letter_job
        where dead_at < statement_timestamp() - :age_us::float8 * interval '1 microsecond'
        order by dead_at
        limit :limit offset :offset
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
