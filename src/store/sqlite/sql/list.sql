-- One page of one state, ordered by the primary key; the caller merges the states.
select id, seq, kind, queue, rank, attempt, max_attempts, created_at, {due_at}, {owner}, {claimed_at},
       errors ->> '$[#-1].error'
from {table}
where seq > :after and {filter}
order by seq
limit :limit
