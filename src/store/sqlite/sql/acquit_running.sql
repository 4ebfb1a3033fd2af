-- Removes the mark of a suspect that runs alone: others start beside it, and its death is no proof any more.
update jobwright_job set visible_at = null where id = :id and lock_owner is not null and visible_at = :mark
returning queue
