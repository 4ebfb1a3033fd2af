-- An ordered job that is blocked on the group it holds: it is the only one that can start, even if others are better.
select b.id, b.seq, b.rank, b.kind, b.queue, b.options, b.admitted, b.blocked_on, b.share
from jobwright_permit s
join jobwright_blocked_job b on b.id = s.job_id and b.blocked_on = s.key
where s.key = :blocked_on
