-- The same for one job, inside the transaction that its handler used.
delete from {schema}.job where id = $2 and version = $3 and lock_owner = $1 returning id
