-- Runs on a reader, so that polling an empty queue never waits for the writer. Three arms as in claim.sql; only the index is read. Only the
-- claim checks whether a rule lets a row start: rows that may not start are soon out of the way.
select exists (
    select 1 from jobwright_job as job
    where lock_owner is null and queue = :queue and rank < :rank
      and (:include_hidden or visible_at is null or visible_at <= :now or visible_at > :now + 120000000)
      and (:kinds is null or kind in (select value from json_each(:kinds)))
      and {queue_open}
) or exists (
    select 1 from jobwright_job as job
    where lock_owner is null and queue = :queue and rank = :rank and seq > :after and seq <= :until
      and (:include_hidden or visible_at is null or visible_at <= :now or visible_at > :now + 120000000)
      and (:kinds is null or kind in (select value from json_each(:kinds)))
      and {queue_open}
) or exists (
    select 1 from jobwright_job as job
    where lock_owner is null and queue = :queue and rank > :rank and :worse
      and (:include_hidden or visible_at is null or visible_at <= :now or visible_at > :now + 120000000)
      and (:kinds is null or kind in (select value from json_each(:kinds)))
      and {queue_open}
)
