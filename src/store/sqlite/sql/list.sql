-- One page of one state, ordered by the primary key; the caller merges the states.
select id, seq, kind, queue, rank, attempt, max_attempts, created_at, {due_at} as due_at, {owner} as owner, {claimed_at} as claimed_at,
       errors ->> '$[#-1].error' as last_error
from {table}
where seq > :after and {filter}
order by seq
limit :limit
