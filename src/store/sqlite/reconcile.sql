-- name: orphaned_permits
-- Permits without a holder, at most :limit. Triggers release a permit with its holder, but not where they were switched off, or a table was restored
-- alone.
select s.job_id, s.key
from jobwright_permit s
where not exists (select 1 from jobwright_job job where job.id = s.job_id and {holds})
  and not exists (select 1 from jobwright_terminating_handler e where e.holder = s.job_id)
limit :limit

-- name: reclaim_permit
-- Takes back a permit.
delete from jobwright_permit where job_id = :job_id and key = :key

-- name: stuck_keys
-- Keys that jobs are blocked on although no permit and no rule holds them up, and that nothing will unblock. Suspects (`suspects`) wait
-- for an idle node.
select b.blocked_on
from (select blocked_on, substr(blocked_on, 3) as name,
             case substr(blocked_on, 1, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
      from (select distinct blocked_on from jobwright_job where blocked_on <> 'alone') g) b
where not exists (select 1 from jobwright_permit s where s.key = b.blocked_on)
  and not exists (select 1 from jobwright_unblock o where o.key = b.blocked_on)
  and not exists (select 1 from jobwright_rule r
                  where r.scope = b.scope and (r.paused or r.running = 0)
                    and (r.name = b.name
                         or r.name = '*' and (r.paused or not exists (select 1 from jobwright_rule own where own.scope = b.scope and own.name = b.name))))
limit :limit
