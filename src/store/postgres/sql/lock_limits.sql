-- Waits for claims that count under these keys, and lets none count before this is over. A statement of its own: only later ones see what it has
-- waited for.
select {schema}.lock_limits($1)
