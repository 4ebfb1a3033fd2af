-- As age_waiting, for what waits behind the queue's gate.
update jobwright_blocked_job
set rank = max(rank - ((:now - created_at) / :aging - coalesce(terms ->> 'aged', 0)), -32767),
    terms = json_set(coalesce(terms, '{}'), '$.aged', (:now - created_at) / :aging)
where seq in (
    select old.seq
    from (select distinct share, rank from jobwright_blocked_job where gate = 'q:' || :queue) r
    join jobwright_blocked_job old
      on old.seq in (select b.seq from jobwright_blocked_job b
                     where b.gate = 'q:' || :queue and b.share = r.share and b.rank = r.rank order by b.seq limit :limit)
    where (:now - old.created_at) / :aging > coalesce(old.terms ->> 'aged', 0)
)
