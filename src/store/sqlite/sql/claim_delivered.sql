-- By id, one delivery a call; nothing if the row is not what the delivery says any more. Held or not: this is its delivery.
update jobwright_job as job
set lock_owner = :node, claimed_at = :now, held_until = null, version = :claim, attempt = attempt + 1
where id = :id and version = :version and lock_owner is null
  and (:kinds is null or kind in (select value from json_each(:kinds)))
  and {may_start}
returning {job_columns}
