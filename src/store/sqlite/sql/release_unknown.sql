-- Gives back what a node owns without knowing it; no handler ran, so no attempt is spent. The known ids come as hex, in JSON.
update jobwright_job
set lock_owner = null, claimed_at = null, attempt = max(attempt - 1, 0)
where lock_owner = :node and lower(hex(id)) not in (select value from json_each(:known))
