-- name: claim_check
-- Runs on a reader, so that polling an empty queue never waits for the writer. Three arms as in `claim`; only the index is read. Only the
-- claim checks whether a rule lets a row start: rows that may not start are soon out of the way.
select exists (select 1 from jobwright_job as job where rank < :rank and {claimable})
    or exists (select 1 from jobwright_job as job where rank = :rank and seq > :after and seq <= :until and {claimable})
    or exists (select 1 from jobwright_job as job where rank > :rank and :worse and {claimable})

-- name: claim
-- Three arms, merged by the index: ranks better than the cursor's, the rest of its own rank, and worse ranks. For (rank, seq) > (:rank,
-- :after) SQLite would use only the first half, as seq is its rowid, and scan what the cursor is meant to skip. A scan for passed-over rows
-- ends with :until and leaves worse ranks out. There is one writer, so no SKIP LOCKED is needed. The returned rows have no order: the
-- caller sorts them.
update jobwright_job
set state = 'running', lock_owner = :node, claimed_at = :now, visible_at = null, version = :claim, attempt = attempt + 1
where seq in (
    select seq from (
        select rank, seq from jobwright_job as job
        where rank < :rank and {claimable} and {may_start}
        union all
        select rank, seq from jobwright_job as job
        where rank = :rank and seq > :after and seq <= :until and {claimable} and {may_start}
        union all
        select rank, seq from jobwright_job as job
        where rank > :rank and :worse and {claimable} and {may_start}
        order by rank, seq
        limit :limit
    )
)
returning {job}
