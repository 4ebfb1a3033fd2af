-- The queues whose jobs age, with the microseconds per priority: queues that have rows, each with the rule that applies to it.
select q.queue, r.aging
from (
    with recursive step as (
        (select c.queue from {schema}.job c where c.blocked_on is null order by c.queue limit 1)
        union all
        select (select c.queue from {schema}.job c where c.queue > step.queue and c.blocked_on is null order by c.queue limit 1) from step where step.queue is not null
    )
    select queue from step where queue is not null
    union
    select substr(blocked_on, 3) from (
        with recursive step as (
            (select b.blocked_on from {schema}.job b where b.blocked_on >= 'q:' order by b.blocked_on limit 1)
            union all
            select (select b.blocked_on from {schema}.job b where b.blocked_on > step.blocked_on order by b.blocked_on limit 1) from step where step.blocked_on like 'q:%'
        )
        select blocked_on from step where blocked_on like 'q:%'
    ) keys
) q
join {schema}.rule r on r.scope = 'queue' and r.aging is not null
 and (r.name = q.queue or r.name = '*' and not exists (select from {schema}.rule own where own.scope = 'queue' and own.name = q.queue))
where exists (select from {schema}.rule a where a.aging is not null)
