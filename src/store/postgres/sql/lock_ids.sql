-- Locks all ids of a batch that several statements write, in the order of the ids. If each statement locked its own, two batches could
-- deadlock.
-- :ids::uuid[]
select count(*) from {schema}.new_ids(:ids)
