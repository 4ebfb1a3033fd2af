-- Times of past events that lie in the future: the clock was ahead when they were written. One second of tolerance. Times of future events
-- are judged by how far ahead they can legitimately be. A time without an end counts as one that is 8,000 years away.
-- :hold_us::int8
select what, n, (extract(epoch from least(far, 'epoch'::timestamptz + interval '8000 years') - statement_timestamp())::float8 * 1000000::float8)::int8 as far_us
from (
    select 'node.started_at' as what, count(*) as n, max(started_at) as far from {schema}.node where started_at > statement_timestamp() + interval '1 second'
    union all
    select 'node.dead_at' as what, count(*) as n, max(dead_at) as far from {schema}.node where dead_at > statement_timestamp() + interval '1 second'
    union all
    select 'job.created_at' as what, count(*) as n, max(created_at) as far from {schema}.job where created_at > statement_timestamp() + interval '1 second'
    union all
    select 'job.claimed_at' as what, count(*) as n, max(claimed_at) as far from {schema}.job where claimed_at > statement_timestamp() + interval '1 second'
    union all
    select 'timer_job.created_at' as what, count(*) as n, max(created_at) as far from {schema}.timer_job where created_at > statement_timestamp() + interval '1 second'
    union all
    select 'suspended_job.suspended_at' as what, count(*) as n, max(suspended_at) as far from {schema}.suspended_job where suspended_at > statement_timestamp() + interval '1 second'
    union all
    select 'external_job.handed_at' as what, count(*) as n, max(handed_at) as far from {schema}.external_job where handed_at > statement_timestamp() + interval '1 second'
    union all
    select 'dead_letter_job.dead_at' as what, count(*) as n, max(dead_at) as far from {schema}.dead_letter_job where dead_at > statement_timestamp() + interval '1 second'
    union all
    select 'rate_log.at' as what, count(*) as n, max(at) as far from {schema}.rate_log where at > statement_timestamp() + interval '1 second'
    union all
    select 'rule.changed_at' as what, count(*) as n, max(changed_at) as far from {schema}.rule where changed_at > statement_timestamp() + interval '1 second'
    union all
    select 'schedule.last_at' as what, count(*) as n, max(last_at) as far from {schema}.schedule where last_at > statement_timestamp() + interval '1 second'
    union all
    select 'submission.received_at' as what, count(*) as n, max(received_at) as far from {schema}.submission where received_at > statement_timestamp() + interval '1 second'
    union all
    select 'history.ended_at' as what, count(*) as n, max(ended_at) as far from {schema}.history where ended_at > statement_timestamp() + interval '1 second'
    union all
    select 'result.created_at' as what, count(*) as n, max(created_at) as far from {schema}.result where created_at > statement_timestamp() + interval '1 second'
    union all
    select 'progress.at' as what, count(*) as n, max(at) as far from {schema}.progress where at > statement_timestamp() + interval '1 second'
    union all
    select 'audit.at' as what, count(*) as n, max(at) as far from {schema}.audit where at > statement_timestamp() + interval '1 second'
    union all
    select 'unblock.unblock_at', count(*), max(unblock_at)
    from {schema}.unblock
    where unblock_at > statement_timestamp() + interval '1 second'
                     + coalesce((select max(period) from {schema}.rule), 0)::float8 * interval '1 microsecond'
    union all
    select 'job.visible_at', count(*), max(visible_at)
    from {schema}.job
    where visible_at > statement_timestamp() + :hold_us::float8 * interval '1 microsecond'
) every
where n > 0
order by what
