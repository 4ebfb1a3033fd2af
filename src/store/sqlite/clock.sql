-- name: clock_skew
-- Times of past events that lie in the future: the clock was ahead when they were written. One second of tolerance. Times of future events
-- are judged by how far ahead they can legitimately be. Times with an index are read from its end. Of the others, :limit rows are looked at: of jobs the
-- newest, which a clock that was ahead lately has written.
with newest as materialized (
    select created_at, claimed_at, suspended_at, visible_at from jobwright_job order by seq desc limit :limit
)
select what, n, far
from (
    select 'node.started_at' as what, count(*) as n, max(started_at) - :now as far from jobwright_node where started_at > :now + 1000000
    union all
    select 'node.dead_at' as what, count(*) as n, max(dead_at) - :now as far from jobwright_node where dead_at > :now + 1000000
    union all
    select 'job.created_at' as what, count(*) as n, max(created_at) - :now as far from newest where created_at > :now + 1000000
    union all
    select 'job.claimed_at' as what, count(*) as n, max(claimed_at) - :now as far from newest where claimed_at > :now + 1000000
    union all
    select 'job.suspended_at' as what, count(*) as n, max(suspended_at) - :now as far from newest where suspended_at > :now + 1000000
    union all
    select 'job.visible_at' as what, count(*) as n, max(visible_at) - :now as far from newest where visible_at > :now + :hold
    union all
    select 'job.dead_at', count(*), max(dead_at) - :now
    from (select dead_at from jobwright_job where dead_at > :now + 1000000 order by dead_at desc limit :limit)
    union all
    select 'submission.received_at', count(*), max(received_at) - :now
    from (select received_at from jobwright_submission where received_at > :now + 1000000 order by received_at desc limit :limit)
    union all
    select 'history.ended_at', count(*), max(ended_at) - :now
    from (select ended_at from jobwright_history where ended_at > :now + 1000000 order by ended_at desc limit :limit)
    union all
    select 'audit.at', count(*), max(at) - :now
    from (select at from jobwright_audit where at > :now + 1000000 order by at desc limit :limit)
    union all
    select 'rate_log.at', count(*), max(at) - :now from (select at from jobwright_rate_log limit :limit) where at > :now + 1000000
    union all
    select 'result.created_at', count(*), max(created_at) - :now from (select created_at from jobwright_result limit :limit) where created_at > :now + 1000000
    union all
    select 'progress.at', count(*), max(at) - :now from (select at from jobwright_progress limit :limit) where at > :now + 1000000
    union all
    select 'rule.changed_at' as what, count(*) as n, max(changed_at) - :now as far from jobwright_rule where changed_at > :now + 1000000
    union all
    select 'schedule.last_at' as what, count(*) as n, max(last_at) - :now as far from jobwright_schedule where last_at > :now + 1000000
    union all
    select 'unblock.unblock_at', count(*), max(unblock_at) - :now
    from (
        select unblock_at from jobwright_unblock
        where unblock_at > :now + 1000000 + coalesce((select max(period) from jobwright_rule), 0) order by unblock_at desc limit :limit
    )
)
where n > 0
order by what

-- name: find
-- How many rows a section below selects, and how far ahead of the clock the farthest of them is. Each of these is followed by the repair of its rows.
select count(*) as n, coalesce(max(far), 0) as far from ({skewed})

-- name: skewed_unblocks
-- Keys that a rate unblocks later than any period lasts: the clock was ahead. They are unblocked now, and an admission pass finds out
-- whether jobs may start.
select rowid as row, unblock_at - :now as far from jobwright_unblock
where unblock_at > :now + 1000000 + coalesce((select max(period) from jobwright_rule), 0)

-- name: repair_unblocks
update jobwright_unblock set unblock_at = :now where rowid in (select row from ({skewed}))

-- name: skewed_rates
-- Starts in the future count as now: their real time is not known any more, and a rate is better enforced for too long than broken.
select rowid as row, at - :now as far from jobwright_rate_log where at > :now + 1000000

-- name: repair_rates
update jobwright_rate_log set at = :now where rowid in (select row from ({skewed}))

-- name: skewed_leases
-- A job that was handed out in the future counts as handed out now, and its lease keeps its length. A lease that was extended while the
-- clock was ahead ends no later than the longest that a worker may ask for, or the one that it was handed out with.
select seq as row, lease_until - :now - lease as far from jobwright_job
where lease_until is not null and (claimed_at > :now + 1000000 or lease_until > :now + 1000000 + max(lease, :longest))

-- name: repair_leases
update jobwright_job
set lease_until = min(lease_until - max(claimed_at - :now, 0), :now + max(lease, :longest)), claimed_at = min(claimed_at, :now)
where seq in (select row from ({skewed}))

-- name: skewed_lives
-- Times to live that began in the future begin now. Only the farthest ends are checked: what a clock that was far ahead wrote is among
-- them, and nearer ones are late by less.
select seq as row, expires - ttl - :now as far
from (
    select seq, options ->> 'expires' as expires, options ->> 'ttl' as ttl
    from jobwright_job where {may_expire} order by options ->> 'expires' desc limit :longest
)
where expires - ttl > :now + 1000000

-- name: repair_lives
update jobwright_job set options = json_set(options, '$.expires', :now + (options ->> 'ttl')) where seq in (select row from ({skewed}))

-- name: skewed_retries
-- Attempts that failed in the future failed now: the delay before the next one is counted from here. Only the farthest timers are checked.
-- A requested delay is left alone, and so is a timer that is due before that failure: it was repaired before.
select seq as row, failed_at - :now as far
from (
    select seq, due_at, cast(unixepoch(errors ->> '$[#-1].at', 'subsec') * 1000000 as integer) as failed_at
    from jobwright_job where state = 'timer' order by due_at desc limit :longest
)
where failed_at > :now + 1000000 and due_at > failed_at

-- name: repair_retries
update jobwright_job
set due_at = due_at - skewed.far
from ({skewed}) as skewed
where jobwright_job.seq = skewed.row

-- name: skewed_uniques
-- A key that was taken for a period in the future counts as taken now, and is held for the requested period. Checks the keys that are held
-- longest: they come first in the index.
select key as row, taken_at - :now as far
from (select key, taken_at from jobwright_unique_key where expires_at > :now + 1000000 order by expires_at desc limit :longest)
where taken_at > :now + 1000000

-- name: repair_uniques
update jobwright_unique_key set expires_at = expires_at - (taken_at - :now), taken_at = :now where key in (select row from ({skewed}))
