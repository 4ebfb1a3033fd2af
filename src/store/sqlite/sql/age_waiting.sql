-- Raises long-waiting jobs by one priority for each :aging. Only the oldest of each priority are considered, because they are next in line.
-- `aged` records how much was already added, up to the best priority. So the raise can be taken back if the clock turns out to have been
-- ahead.
update jobwright_job
set rank = min(rank - (max(0, min((:now - created_at) / :aging, rank + 32767 + coalesce(options ->> 'aged', 0))) - coalesce(options ->> 'aged', 0)), 32767),
    options = json_set(coalesce(options, '{}'), '$.aged', max(0, min((:now - created_at) / :aging, rank + 32767 + coalesce(options ->> 'aged', 0))))
where seq in (
    select old.seq
    from (select distinct rank from jobwright_job where lock_owner is null and queue = :queue) r
    join jobwright_job old
      on old.seq in (select j.seq from jobwright_job j
                     where j.lock_owner is null and j.queue = :queue and j.rank = r.rank order by j.seq limit :limit)
    where max(0, min((:now - old.created_at) / :aging, old.rank + 32767 + coalesce(old.options ->> 'aged', 0))) <> coalesce(old.options ->> 'aged', 0)
)
