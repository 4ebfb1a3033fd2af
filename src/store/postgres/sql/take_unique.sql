-- See the function. It is one because each of its steps must see what was committed meanwhile.
-- :keys::bytea[], :ids::uuid[], :holds::text[], :periods_us::int8[], :conflicts::text[]
select n, verdict, holder from {schema}.take_unique(:keys, :ids, :holds, :periods_us, :conflicts)
