-- name: suspects
-- The best suspects that wait: jobs whose process died while they ran. They are blocked on the key 'alone', so that no ordinary claim reads
-- them, and the index on blocked jobs finds them in their order. Those that no claim would take are left out, or nodes would empty themselves
-- for them in vain: paused ones, those under a limit of nothing, and expired ones. A limit that was set since may need permits, which only
-- an admission pass gives, and only to ordinary jobs.
select id, version, attempt, queue, kind,
       not admitted and exists (select 1 from jobwright_rule r where (r.running is not null or r.rate is not null) and {covers}) as needs_permits
from jobwright_job as job
where blocked_on = 'alone' and share = ''
  and queue in (select value from json_each(:queues))
  and (:kinds is null or kind in (select value from json_each(:kinds)))
  and (options is null or options ->> 'expires' is null or options ->> 'expires' > :now)
  and (not exists (select 1 from jobwright_rule r where r.paused or r.running = 0)
       or not exists (select 1 from jobwright_rule r where (r.paused or not job.admitted and r.running = 0) and {covers}))
order by rank, seq
limit :limit

-- name: claim_suspects
-- Claims the best suspects of a queue that may start. The mark in `visible_at` says that their node runs nothing else.
update jobwright_job
set state = 'running', blocked_on = null, lock_owner = :node, claimed_at = :now, visible_at = :mark, version = :claim, attempt = attempt + 1
where seq in (
    select seq from jobwright_job as job
    where blocked_on = 'alone' and share = '' and queue = :queue
      and (:kinds is null or kind in (select value from json_each(:kinds)))
      and {queue_open} and {may_start}
    order by rank, seq
    limit :limit
)
returning {job}

-- name: acquit
-- A suspect that waits becomes an ordinary job. One that runs alone loses its mark: others start beside it, and its death is no proof any more.
update jobwright_job
set state = case state when 'blocked' then 'waiting' else state end, blocked_on = null, visible_at = null
where id = :id and (blocked_on = 'alone' or lock_owner is not null and visible_at = :mark)
returning queue
