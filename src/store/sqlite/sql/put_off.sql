-- In its table, because it may be the move that can't be made. The hold keeps claims away as it does for a delivery.
update jobwright_job set lock_owner = null, claimed_at = null, held_until = :until
where id = :id and version = :version and lock_owner = :node
