-- As age_waiting, for what waits behind the queue's gate.
update jobwright_blocked_job
set rank = min(rank - (max(0, min((:now - created_at) / :aging, rank + 32767 + coalesce(terms ->> 'aged', 0))) - coalesce(terms ->> 'aged', 0)), 32767),
    terms = json_set(coalesce(terms, '{}'), '$.aged', max(0, min((:now - created_at) / :aging, rank + 32767 + coalesce(terms ->> 'aged', 0))))
where seq in (
    select old.seq
    from (select distinct share, rank from jobwright_blocked_job where gate = 'q:' || :queue) r
    join jobwright_blocked_job old
      on old.seq in (select b.seq from jobwright_blocked_job b
                     where b.gate = 'q:' || :queue and b.share = r.share and b.rank = r.rank order by b.seq limit :limit)
    where max(0, min((:now - old.created_at) / :aging, old.rank + 32767 + coalesce(old.terms ->> 'aged', 0))) <> coalesce(old.terms ->> 'aged', 0)
)
