-- As age_waiting, for jobs blocked on the queue's key.
update jobwright_blocked_job
set rank = min(rank - (max(0, min((:now - created_at) / :aging, rank + 32767 + coalesce(options ->> 'aged', 0))) - coalesce(options ->> 'aged', 0)), 32767),
    options = json_set(coalesce(options, '{}'), '$.aged', max(0, min((:now - created_at) / :aging, rank + 32767 + coalesce(options ->> 'aged', 0))))
where seq in (
    select old.seq
    from (select distinct share, rank from jobwright_blocked_job where blocked_on = 'q:' || :queue) r
    join jobwright_blocked_job old
      on old.seq in (select b.seq from jobwright_blocked_job b
                     where b.blocked_on = 'q:' || :queue and b.share = r.share and b.rank = r.rank order by b.seq limit :limit)
    where max(0, min((:now - old.created_at) / :aging, old.rank + 32767 + coalesce(old.options ->> 'aged', 0))) <> coalesce(old.options ->> 'aged', 0)
)
