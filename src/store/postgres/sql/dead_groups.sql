-- The newest dead letters that match, with equal reasons counted here already: what differs only in a number is put together
-- by the caller. The first line of a reason is enough, and no more than can be told apart is sent.
select kind, queue, reason, count(*), min(dead_at), max(dead_at), (array_agg(id order by dead_at desc))[1]
from (
    select kind, queue, left(split_part(ltrim(reason, E' \t\r\n'), E'\n', 1), 300) as reason, dead_at, id
    from {schema}.dead_letter_job
    where ($2::text[] is null or 'dead' = any ($2))
      and {dead_filter}
    order by dead_at desc
    limit $11
) newest
group by kind, queue, reason
