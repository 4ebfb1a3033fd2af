-- Locks all ids of a batch that several statements write, in the order of the ids. If each statement locked its own, two batches could
-- deadlock. Returns those that are known as other jobs, before any of the statements has written something.
-- :ids::uuid[], :kinds::text[], :queues::text[]
select d.job_id as id, d.known
from {schema}.decide_ids(:ids, :kinds, :queues) d
where d.known <> 'same'::text
