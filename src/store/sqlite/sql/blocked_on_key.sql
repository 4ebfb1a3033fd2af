-- The best jobs of one share that are blocked on a key, from the index.
select id, seq, rank, kind, queue, options, admitted, blocked_on, share
from jobwright_blocked_job
where blocked_on = :blocked_on and share = :share
order by rank, seq
limit :limit
