-- The best of one share behind a gate, from the index.
select id, seq, rank, kind, queue, terms, admitted, gate, share
from jobwright_blocked_job
where gate = :gate and share = :share
order by rank, seq
limit :limit
