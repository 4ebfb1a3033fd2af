-- Ends the head start of a delivery that will not arrive.
update jobwright_job set visible_at = null where id = :id and lock_owner is null and visible_at is not null returning queue
