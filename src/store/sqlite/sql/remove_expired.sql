-- Runs after the copy was made.
delete from {table} where seq = :seq
