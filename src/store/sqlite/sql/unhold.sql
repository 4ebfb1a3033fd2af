-- Ends the head start of a delivery that will not arrive.
update jobwright_job set held_until = null where id = :id and lock_owner is null and held_until is not null returning queue
