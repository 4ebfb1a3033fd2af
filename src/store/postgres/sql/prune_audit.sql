-- The oldest, a batch at a time. Named by id and not locked, so that whoever may read the times and delete needs no more. Where another
-- executor forgets the same ones this one waits for it, and finds them gone.
with gone as (
    delete from {schema}.audit
    where id = any (array(
        select id
        from {schema}.audit
        where at < statement_timestamp() - $1 * interval '1 microsecond'
        order by at
        limit $2
    ))
    returning 1
)
select count(*) from gone
