-- Like unknown_terminating.sql, for a claim whose answer got lost, where it is known which jobs it may have taken.
-- :node::int8, :claim::int4, :ids::uuid[]
delete from {schema}.terminating_handler where job_id = any (:ids::uuid[]) and node = :node and version = :claim
returning holder
