-- Removes the oldest entries, a batch at a time. They are named by id and not locked, so that a role that may read the times and delete
-- needs no other right. If another executor prunes the same ones, this statement waits for it briefly, and finds them gone.
-- The offset and the brief wait are as in prune_history.sql.
-- :age_us::int8, :limit::int8, :offset::int8
with gone as (
    delete from {schema}.audit
    where {briefly} and id = any (array(
        select id
        from {schema}.audit
        where at < statement_timestamp() - :age_us::float8 * interval '1 microsecond'
        order by at
        limit :limit offset :offset
    ))
    returning 1
)
select count(*) from gone
