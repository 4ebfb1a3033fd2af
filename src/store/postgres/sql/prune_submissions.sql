-- Removes old submissions, a batch at a time, skipping those that another executor is pruning.
with gone as (
    delete from {schema}.submission
    where ctid = any (array(
        select ctid
        from {schema}.submission
        where received_at < statement_timestamp() - $1 * interval '1 microsecond'
        order by received_at
        limit $2
        for update skip locked
    ))
    returning id
)
select count(*) from gone
