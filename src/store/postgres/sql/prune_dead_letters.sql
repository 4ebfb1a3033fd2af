-- The oldest, a batch at a time, past those that somebody else has in hand: another executor, or who tries them again. Triggers free what they held.
with gone as (
    delete from {schema}.dead_letter_job
    where ctid = any (array(
        select ctid
        from {schema}.dead_letter_job
        where dead_at < statement_timestamp() - $1 * interval '1 microsecond'
        order by dead_at
        limit $2
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
