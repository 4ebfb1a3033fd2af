-- Waits for claims that count under these keys, and lets none count before this transaction is over. A separate statement, because only
-- later ones see what it waited for.
-- :locks::int8[]
select {schema}.lock_limits(:locks)
