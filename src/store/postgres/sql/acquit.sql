-- Makes ordinary jobs of suspects: those that wait may be claimed by any claim, and the death of one that runs is no proof any more. No node could
-- run it alone for a long time (a rule covers it that only an admission pass counts, or all nodes are busy with long jobs), or its run takes so
-- long that others start beside it. A row that another transaction has locked is passed over, and is in the answer without its queue.
-- :ids::uuid[]
with acquitted as (
    update {schema}.job j
    set blocked_on = null, share = null
    where {briefly} and j.ctid = any (array(
        select s.ctid
        from {schema}.job s
        where s.id = any (:ids::uuid[]) and coalesce(s.blocked_on, '') = 'alone'
        for update skip locked
    ))
    returning j.id, j.queue
)
select queue from acquitted
union all
select null
from {schema}.job s
where s.id = any (:ids::uuid[]) and coalesce(s.blocked_on, '') = 'alone' and not exists (select from acquitted a where a.id = s.id)
