-- Which of these ids, chosen by their senders, exist already, and which of those as other jobs. It runs before the keys of unique jobs are taken,
-- and locks the ids, as the flush does.
-- :ids::uuid[], :kinds::text[], :queues::text[]
select d.job_id as id, d.known
from {schema}.decide_ids(:ids, :kinds, :queues) d
where d.known is not null
