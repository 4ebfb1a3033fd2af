-- name: aging_queues
-- The queues whose jobs age, with the microseconds per priority: queues that have rows, each with the rule that applies to it.
select q.queue, r.aging
from (select distinct queue from jobwright_job where state = 'waiting'
      union select distinct substr(blocked_on, 3) from jobwright_job where blocked_on >= 'q:' and blocked_on < 'q;') q
join jobwright_rule r on r.scope = 'queue' and r.aging is not null
 and (r.name = q.queue or r.name = '*' and not exists (select 1 from jobwright_rule own where own.scope = 'queue' and own.name = q.queue))

-- name: age
-- Raises jobs that have waited long by one priority for each :aging: those that wait in the queue or are blocked on its key. Only the oldest of each
-- priority are considered, because they are next in line. `aged` records how much was already added, up to the best priority. So the raise can be
-- taken back if the clock turns out to have been ahead.
with oldest (seq) as (
    select old.seq
    from (select distinct rank from jobwright_job where state = 'waiting' and queue = :queue) r
    join jobwright_job old
      on old.seq in (select j.seq from jobwright_job j
                     where j.state = 'waiting' and j.queue = :queue and j.rank = r.rank order by j.seq limit :limit)
    union all
    select old.seq
    from (select distinct share, rank from jobwright_job where blocked_on = 'q:' || :queue) r
    join jobwright_job old
      on old.seq in (select b.seq from jobwright_job b
                     where b.blocked_on = 'q:' || :queue and b.share = r.share and b.rank = r.rank order by b.seq limit :limit)
),
raised (seq, was, becomes) as materialized (
    select seq, coalesce(options ->> 'aged', 0), max(0, min((:now - created_at) / :aging, rank + 32767 + coalesce(options ->> 'aged', 0)))
    from oldest join jobwright_job using (seq)
)
update jobwright_job
set rank = min(rank - (becomes - was), 32767), options = json_set(coalesce(options, '{}'), '$.aged', becomes)
from raised
where raised.seq = jobwright_job.seq and becomes <> was
