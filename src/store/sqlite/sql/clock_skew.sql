-- Times of past events that lie in the future: the clock was ahead when they were written. One second of tolerance. Times of future events
-- are judged by how far ahead they can legitimately be.
select what, n, far
from (
    select 'node.started_at' as what, count(*) as n, max(started_at) - :now as far from jobwright_node where started_at > :now + 1000000
    union all
    select 'node.dead_at' as what, count(*) as n, max(dead_at) - :now as far from jobwright_node where dead_at > :now + 1000000
    union all
    select 'job.created_at' as what, count(*) as n, max(created_at) - :now as far from jobwright_job where created_at > :now + 1000000
    union all
    select 'job.claimed_at' as what, count(*) as n, max(claimed_at) - :now as far from jobwright_job where claimed_at > :now + 1000000
    union all
    select 'blocked_job.created_at' as what, count(*) as n, max(created_at) - :now as far from jobwright_blocked_job where created_at > :now + 1000000
    union all
    select 'timer_job.created_at' as what, count(*) as n, max(created_at) - :now as far from jobwright_timer_job where created_at > :now + 1000000
    union all
    select 'suspended_job.suspended_at' as what, count(*) as n, max(suspended_at) - :now as far from jobwright_suspended_job where suspended_at > :now + 1000000
    union all
    select 'external_job.handed_at' as what, count(*) as n, max(handed_at) - :now as far from jobwright_external_job where handed_at > :now + 1000000
    union all
    select 'dead_letter_job.dead_at' as what, count(*) as n, max(dead_at) - :now as far from jobwright_dead_letter_job where dead_at > :now + 1000000
    union all
    select 'rate_log.at' as what, count(*) as n, max(at) - :now as far from jobwright_rate_log where at > :now + 1000000
    union all
    select 'rule.changed_at' as what, count(*) as n, max(changed_at) - :now as far from jobwright_rule where changed_at > :now + 1000000
    union all
    select 'schedule.last_at' as what, count(*) as n, max(last_at) - :now as far from jobwright_schedule where last_at > :now + 1000000
    union all
    select 'submission.received_at' as what, count(*) as n, max(received_at) - :now as far from jobwright_submission where received_at > :now + 1000000
    union all
    select 'history.ended_at' as what, count(*) as n, max(ended_at) - :now as far from jobwright_history where ended_at > :now + 1000000
    union all
    select 'result.created_at' as what, count(*) as n, max(created_at) - :now as far from jobwright_result where created_at > :now + 1000000
    union all
    select 'audit.at' as what, count(*) as n, max(at) - :now as far from jobwright_audit where at > :now + 1000000
    union all
    select 'progress.at', count(*), max(at) - :now from jobwright_progress where at > :now + 1000000
    union all
    select 'unblock.unblock_at', count(*), max(unblock_at) - :now from jobwright_unblock
    where unblock_at > :now + 1000000 + coalesce((select max(period) from jobwright_rule), 0)
    union all
    select 'job.visible_at', count(*), max(visible_at) - :now from jobwright_job where visible_at > :now + :hold
)
where n > 0
order by what
