-- Unblocks keys that jobs are blocked on although no permit, no count of a node and no rule holds them up, and that nothing will unblock: the note
-- got lost with a table that was truncated or restored alone. One more unblock does no harm. It steps from key to key, :limit of them, so its
-- cost does not depend on the number of blocked jobs. The last column is where the next page begins; null = there are no more.
-- :after::text, :limit::int8
with recursive step (key, n) as (
    (select b.blocked_on, 1::int8 from {schema}.job b where b.blocked_on > :after order by b.blocked_on limit 1)
    union all
    select (select b.blocked_on from {schema}.job b where b.blocked_on > step.key order by b.blocked_on limit 1), step.n + 1
    from step
    where step.key is not null and step.n < :limit
),
keys as materialized (
    select key, n, substr(key, 3) as name,
           case left(key, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
    from step
    -- Suspects of the death of a process wait for an idle node (suspects.sql).
    where key is not null and key <> 'alone'
),
opened as (
    insert into {schema}.unblock (key)
    select k.key
    from keys k
    where (select s.ctid from {schema}.permit s where s.key collate "C" = k.key limit 1) is null
      and (select u.key from {schema}.usage u where u.key = k.key and u.n > 0 limit 1) is null
      and not exists (select from {schema}.unblock o where o.key = k.key)
      and not exists (select from {schema}.rule r
                      where r.scope = k.scope and (r.paused or r.running = 0)
                        and (r.name = k.name
                             or r.name = '*' and (r.paused or not exists (select from {schema}.rule own where own.scope = k.scope and own.name = k.name))))
    returning key
)
select (select array_agg(key) from opened) as opened,
       (select key from keys where n = :limit) as last
