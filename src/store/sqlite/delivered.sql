-- name: claim_delivered
-- By id, one delivery per call; finds nothing if the row no longer matches the delivery. Hidden rows match too: this is their delivery.
update jobwright_job as job
set state = 'running', lock_owner = :node, claimed_at = :now, visible_at = null, version = :claim, attempt = attempt + 1
where id = :id and version = :version and state = 'waiting'
  and (:kinds is null or kind in (select value from json_each(:kinds)))
  and {may_start}
returning {job}

-- name: unhide
-- Ends the head start of a delivery that will not arrive.
update jobwright_job set visible_at = null where id = :id and state = 'waiting' and visible_at is not null returning queue
