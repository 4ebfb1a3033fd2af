-- Keys that jobs are blocked on although no permit and no rule holds them up, and that nothing will unblock. Suspects (suspects.sql) wait
-- for an idle node.
select b.blocked_on
from (select blocked_on, substr(blocked_on, 3) as name,
             case substr(blocked_on, 1, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
      from (select distinct blocked_on from jobwright_blocked_job where blocked_on <> 'alone') g) b
where not exists (select 1 from jobwright_permit s where s.key = b.blocked_on)
  and not exists (select 1 from jobwright_unblock o where o.key = b.blocked_on)
  and not exists (select 1 from jobwright_rule r
                  where r.scope = b.scope and (r.paused or r.running = 0)
                    and (r.name = b.name
                         or r.name = '*' and (r.paused or not exists (select 1 from jobwright_rule own where own.scope = b.scope and own.name = b.name))))
limit :limit
