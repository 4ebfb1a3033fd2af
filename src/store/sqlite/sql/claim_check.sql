-- Asked on a reader, so that a look into an empty queue never waits for the writer. Three arms as in claim.sql; only the index
-- is read. Whether a rule lets a row start, only the claim asks: what may not start is soon out of the way.
select exists (
    select 1 from jobwright_job as job
    where lock_owner is null and queue = :queue and rank < :rank
      and (:held_too or held_until is null or held_until <= :now or held_until > :now + 120000000)
      and (:kinds is null or kind in (select value from json_each(:kinds)))
      and {queue_open}
) or exists (
    select 1 from jobwright_job as job
    where lock_owner is null and queue = :queue and rank = :rank and seq > :after and seq <= :until
      and (:held_too or held_until is null or held_until <= :now or held_until > :now + 120000000)
      and (:kinds is null or kind in (select value from json_each(:kinds)))
      and {queue_open}
) or exists (
    select 1 from jobwright_job as job
    where lock_owner is null and queue = :queue and rank > :rank and :worse
      and (:held_too or held_until is null or held_until <= :now or held_until > :now + 120000000)
      and (:kinds is null or kind in (select value from json_each(:kinds)))
      and {queue_open}
)
