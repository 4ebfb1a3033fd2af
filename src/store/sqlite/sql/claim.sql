-- Three arms, merged by the index: ranks better than the cursor's, the rest of its own rank, and worse ranks. For (rank, seq) > (:rank,
-- :after) SQLite would use only the first half, as seq is its rowid, and scan what the cursor is meant to skip. A scan for passed-over rows
-- ends with :until and leaves worse ranks out. There is one writer, so no SKIP LOCKED is needed. The returned rows have no order: the
-- caller sorts them.
update jobwright_job
set lock_owner = :node, claimed_at = :now, visible_at = null, version = :claim, attempt = attempt + 1
where seq in (
    select seq from (
        select rank, seq from jobwright_job as job
        where lock_owner is null and queue = :queue and rank < :rank
          and (:include_hidden or visible_at is null or visible_at <= :now or visible_at > :now + 120000000)
          and (:kinds is null or kind in (select value from json_each(:kinds)))
          and {queue_open} and {may_start}
        union all
        select rank, seq from jobwright_job as job
        where lock_owner is null and queue = :queue and rank = :rank and seq > :after and seq <= :until
          and (:include_hidden or visible_at is null or visible_at <= :now or visible_at > :now + 120000000)
          and (:kinds is null or kind in (select value from json_each(:kinds)))
          and {queue_open} and {may_start}
        union all
        select rank, seq from jobwright_job as job
        where lock_owner is null and queue = :queue and rank > :rank and :worse
          and (:include_hidden or visible_at is null or visible_at <= :now or visible_at > :now + 120000000)
          and (:kinds is null or kind in (select value from json_each(:kinds)))
          and {queue_open} and {may_start}
        order by rank, seq
        limit :limit
    )
)
returning {job}
