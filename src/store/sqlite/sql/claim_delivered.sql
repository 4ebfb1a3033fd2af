-- By id, one delivery per call; finds nothing if the row no longer matches the delivery. Hidden rows match too: this is their delivery.
update jobwright_job as job
set lock_owner = :node, claimed_at = :now, visible_at = null, version = :claim, attempt = attempt + 1
where id = :id and version = :version and lock_owner is null
  and (:kinds is null or kind in (select value from json_each(:kinds)))
  and {may_start}
returning {job}
