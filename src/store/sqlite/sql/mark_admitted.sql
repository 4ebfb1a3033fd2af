-- A waiting job that a rule covers keeps its place. Its delivery may already have come and gone, so the row is no longer hidden for it.
update jobwright_job set admitted = 1, visible_at = null where id = :id returning queue
