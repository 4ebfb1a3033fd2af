-- name: claim_check
-- Runs on a reader, so that polling an empty queue never waits for the writer. Three arms as in `claim`; only the index is read. Only the
-- claim checks whether a rule lets a row start: rows that may not start are soon out of the way.
select exists (select 1 from jobwright_job as job where rank < :rank and {claimable})
    or exists (select 1 from jobwright_job as job where rank = :rank and seq > :after and seq <= :until and {claimable})
    or exists (select 1 from jobwright_job as job where rank > :rank and :worse and {claimable})

-- name: claim
-- Three arms, merged by the index: ranks better than the cursor's, the rest of its own rank, and worse ranks. For (rank, seq) > (:rank,
-- :after) SQLite would use only the first half, as seq is its rowid, and scan what the cursor is meant to skip. A scan for passed-over rows
-- ends with :until and leaves worse ranks out. There is one writer, so no SKIP LOCKED is needed. The returned rows have no order: the
-- caller sorts them.
update jobwright_job
set state = 'running', lock_owner = :node, claimed_at = :now, visible_at = null, version = :claim, attempt = attempt + 1
where seq in (
    select seq from (
        select rank, seq from jobwright_job as job
        where rank < :rank and {claimable} and {may_start}
        union all
        select rank, seq from jobwright_job as job
        where rank = :rank and seq > :after and seq <= :until and {claimable} and {may_start}
        union all
        select rank, seq from jobwright_job as job
        where rank > :rank and :worse and {claimable} and {may_start}
        order by rank, seq
        limit :limit
    )
)
returning {job}

-- name: node_alive
-- Alive until declared dead: a lease that just ran out can still be renewed.
select exists (select 1 from jobwright_node where id = :node and dead_at is null)

-- name: release_claimed
-- One of the jobs that a claim may have taken whose answer got lost. No handler ran, so it costs no attempt.
update jobwright_job set {given_back}
where id = :id and lock_owner = :node and version = :claim

-- name: unknown_check
-- Runs on a reader: as a rule a node knows all that it owns.
select exists (
    select 1 from jobwright_job indexed by jobwright_job_owned where lock_owner = :node and (id, version) not in ({known})
) or exists (
    select 1 from jobwright_terminating_handler where node = :node and (job_id, version) not in ({known})
)

-- name: release_unknown
-- Releases what a node owns without knowing it. No handler ran, so it costs no attempt. Uses the index of owned rows.
-- Compares claims, and not jobs: the old handler of an id that was cancelled and sent again does not account for the row of a later claim.
-- Claims that began after :before are left alone (numbers wrap around: the nearer half of the circle is "after").
update jobwright_job indexed by jobwright_job_owned
set {given_back}
where lock_owner = :node and (id, version) not in ({known})
  and (:before is null or (version - :before + 2147483648) % 2147483648 >= 1073741824)

-- name: unknown_terminating
-- Like `handler_ended`, for handlers that a node can't know of, because the answer to the claim got lost, or that are no longer in
-- flight. As for owned rows (`release_unknown`), claims are compared, and those that began after :before are left alone.
delete from jobwright_terminating_handler
where node = :node and (job_id, version) not in ({known})
  and (:before is null or (version - :before + 2147483648) % 2147483648 >= 1073741824)

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

-- name: claim_delivered
-- By id, one delivery per call; finds nothing if the row no longer matches the delivery. Hidden rows match too: this is their delivery.
update jobwright_job as job
set state = 'running', lock_owner = :node, claimed_at = :now, visible_at = null, version = :claim, attempt = attempt + 1
where id = :id and version = :version and state = 'waiting'
  and (:kinds is null or kind in (select value from json_each(:kinds)))
  and {may_start}
returning {job}
