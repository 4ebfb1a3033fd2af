-- Three arms, merged by the index: better ranks than the mark's, the rest of its own, and worse ones. SQLite would use only the first
-- half of (rank, seq) > (:rank, :after), as seq is its rowid, and walk what the mark is meant to skip. A look at what was passed over
-- ends with :until and leaves worse ranks out. The one writer needs no SKIP LOCKED. The rows returned have no order: the caller sorts.
update jobwright_job
set lock_owner = :node, claimed_at = :now, held_until = null, version = :claim, attempt = attempt + 1
where seq in (
    select seq from (
        select rank, seq from jobwright_job as job
        where lock_owner is null and queue = :queue and rank < :rank
          and (:held_too or held_until is null or held_until <= :now or held_until > :now + 120000000)
          and (:kinds is null or kind in (select value from json_each(:kinds)))
          and {queue_open} and {may_start}
        union all
        select rank, seq from jobwright_job as job
        where lock_owner is null and queue = :queue and rank = :rank and seq > :after and seq <= :until
          and (:held_too or held_until is null or held_until <= :now or held_until > :now + 120000000)
          and (:kinds is null or kind in (select value from json_each(:kinds)))
          and {queue_open} and {may_start}
        union all
        select rank, seq from jobwright_job as job
        where lock_owner is null and queue = :queue and rank > :rank and :worse
          and (:held_too or held_until is null or held_until <= :now or held_until > :now + 120000000)
          and (:kinds is null or kind in (select value from json_each(:kinds)))
          and {queue_open} and {may_start}
        order by rank, seq
        limit :limit
    )
)
returning {job_columns}
