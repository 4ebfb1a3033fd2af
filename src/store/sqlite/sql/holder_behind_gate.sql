-- An ordered job that waits behind its own group: it is the one that can go, whoever is better.
select b.id, b.seq, b.rank, b.kind, b.queue, b.terms, b.admitted, b.gate, b.share
from jobwright_slot s
join jobwright_blocked_job b on b.id = s.job_id and b.gate = s.key
where s.key = :gate
