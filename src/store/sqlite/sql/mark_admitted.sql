-- A waiting job that a rule covers keeps its place.
update jobwright_job set admitted = 1 where id = :id returning queue
