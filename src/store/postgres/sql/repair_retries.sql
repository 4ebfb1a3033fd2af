-- Attempts that failed in the future failed now: the delay before the next one is counted from here. Only the farthest timers are checked.
-- A requested delay is left alone, and so is a timer that is due before that failure: it was repaired before.
-- :limit::int8
with ahead as materialized (
    select t.ctid as tid, (t.errors -> -1 ->> 'at'::text)::timestamptz - statement_timestamp() as early
    from {schema}.timer_job t
    where t.ctid = any (array(select c.ctid from {schema}.timer_job c order by c.due_at desc limit :limit))
      and (t.errors -> -1 ->> 'at'::text)::timestamptz > statement_timestamp() + interval '1 second'
      and t.due_at > (t.errors -> -1 ->> 'at'::text)::timestamptz
    for update skip locked
),
repaired as (
    update {schema}.timer_job t set due_at = t.due_at - ahead.early from ahead where t.ctid = ahead.tid
)
select count(*) as n, coalesce(max(extract(epoch from early)::float8 * 1000000::float8), 0)::int8 as far_us from ahead
