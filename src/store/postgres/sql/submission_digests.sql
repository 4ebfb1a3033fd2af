-- The recorded digests of ids that were submitted before. Runs after receive.sql, so that it sees what that statement waited for.
-- :ids::uuid[]
select id, digest from {schema}.submission where id = any (:ids::uuid[])
