-- A waiting job that a rule covers keeps its place. Its delivery may have come and gone: it is not kept back for that any more.
update jobwright_job set admitted = 1, held_until = null where id = :id returning queue
