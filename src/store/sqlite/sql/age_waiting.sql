-- Raises what has waited long by one priority for each :aging. Only the oldest of each priority are looked at: they are the next of theirs.
-- `aged` says how much was added already.
update jobwright_job
set rank = max(rank - ((:now - created_at) / :aging - coalesce(terms ->> 'aged', 0)), -32767),
    terms = json_set(coalesce(terms, '{}'), '$.aged', (:now - created_at) / :aging)
where seq in (
    select old.seq
    from (select distinct rank from jobwright_job where lock_owner is null and queue = :queue) r
    join jobwright_job old
      on old.seq in (select j.seq from jobwright_job j
                     where j.lock_owner is null and j.queue = :queue and j.rank = r.rank order by j.seq limit :limit)
    where (:now - old.created_at) / :aging > coalesce(old.terms ->> 'aged', 0)
)
