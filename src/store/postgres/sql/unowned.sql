-- Those of these jobs that no node owns, waiting or blocked, without their content: used to find the one that a statement fails over.
-- :ids::uuid[]
select id, version::int8 as version, seq from {schema}.job where id = any (:ids::uuid[]) and lock_owner is null
