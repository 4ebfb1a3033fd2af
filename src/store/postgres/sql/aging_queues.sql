-- The queues whose jobs age, with how many microseconds make one priority: those that have rows, each by the rule that holds for it.
select q.queue, r.aging
from (
    with recursive step as (
        (select c.queue from {schema}.job c where c.gate is null order by c.queue limit 1)
        union all
        select (select c.queue from {schema}.job c where c.queue > step.queue and c.gate is null order by c.queue limit 1) from step where step.queue is not null
    )
    select queue from step where queue is not null
    union
    select substr(gate, 3) from (
        with recursive step as (
            (select b.gate from {schema}.job b where b.gate >= 'q:' order by b.gate limit 1)
            union all
            select (select b.gate from {schema}.job b where b.gate > step.gate order by b.gate limit 1) from step where step.gate like 'q:%'
        )
        select gate from step where gate like 'q:%'
    ) gates
) q
join {schema}.rule r on r.scope = 'queue' and r.aging is not null
 and (r.name = q.queue or r.name = '*' and not exists (select from {schema}.rule own where own.scope = 'queue' and own.name = q.queue))
where exists (select from {schema}.rule a where a.aging is not null)
