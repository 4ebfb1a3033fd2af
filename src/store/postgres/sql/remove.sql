-- The same for one job, inside the transaction that its handler used. Tells the transaction's id, by which the server can be
-- asked later whether it committed.
delete from {schema}.job where id = $2 and version = $3 and lock_owner = $1 returning id, pg_current_xact_id()::text
