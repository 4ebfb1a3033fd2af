-- name: waiting_kinds
-- The waiting jobs of a queue by kind: of those that claims take first, through `jobwright_job_acquire`, and no more than a limit, however many wait. That
-- index has the kind and not the time, so rows are read.
select kind, count(*) as waiting, min(created_at) as oldest
from (
    select kind, created_at from jobwright_job
    where state = 'waiting' and queue = :queue
    order by rank, seq
    limit :each
)
group by kind
