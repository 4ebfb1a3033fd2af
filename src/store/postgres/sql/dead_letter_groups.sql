-- The newest dead letters that match, with equal reasons already counted here. The caller merges reasons that differ only in a number. Only
-- the first line of a reason is sent, and no more of it than is needed to tell reasons apart.
-- {filter_parameters}, :limit::int8
select kind, queue, reason, count(*), min(dead_at) as first, max(dead_at) as last, (array_agg(id order by dead_at desc))[1] as example
from (
    select kind, queue, left(split_part(ltrim(reason, E' \t\r\n'), E'\n', 1), 300) as reason, dead_at, id
    from {schema}.dead_letter_job
    where (:states::text[] is null or 'dead' = any (:states))
      and {dead_filter}
    order by dead_at desc
    limit :limit
) newest
group by kind, queue, reason
