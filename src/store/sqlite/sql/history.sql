-- Newest first, through the index on the end, or on the job. The clause contains only the conditions that are set.
select job_id as id, seq, kind, queue, outcome, attempt, created_at, started_at, ended_at, node, tenant, error
from jobwright_history
where {filter}
order by ended_at desc, seq desc
limit :limit
