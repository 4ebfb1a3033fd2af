-- Leaves the job in its table, because the move may be what fails. Hiding the row keeps claims away, as for a delivery.
update jobwright_job set lock_owner = null, claimed_at = null, visible_at = :until
where id = :id and version = :version and lock_owner = :node
