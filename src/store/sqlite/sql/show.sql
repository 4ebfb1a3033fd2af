-- Each arm is one lookup in a unique index.
select id, seq, kind, queue, rank, attempt, max_attempts, created_at, null as due_at, lock_owner, claimed_at,
       errors ->> '$[#-1].error', case when lock_owner is null then 'waiting' else 'running' end as state,
       version, errors, headers, payload, body, content_type, null as dead_at, null as reason, options, null as blocked_on
from jobwright_job where id = :id
union all
select id, seq, kind, queue, rank, attempt, max_attempts, created_at, null, null, null, errors ->> '$[#-1].error', 'blocked',
       version, errors, headers, payload, body, content_type, null, null, options, blocked_on
from jobwright_blocked_job where id = :id
union all
select id, seq, kind, queue, rank, attempt, max_attempts, created_at, null, null, null, errors ->> '$[#-1].error', 'external',
       version, errors, headers, payload, body, content_type, null, null, options, null
from jobwright_external_job where id = :id
union all
select id, seq, kind, queue, rank, attempt, max_attempts, created_at, due_at, null, null, errors ->> '$[#-1].error', 'timer',
       version, errors, headers, payload, body, content_type, null, null, options, null
from jobwright_timer_job where id = :id
union all
select id, seq, kind, queue, rank, attempt, max_attempts, created_at, due_at, null, null, errors ->> '$[#-1].error', 'suspended',
       version, errors, headers, payload, body, content_type, null, null, options, null
from jobwright_suspended_job where id = :id
union all
select id, seq, kind, queue, rank, attempt, max_attempts, created_at, null, null, null, errors ->> '$[#-1].error', 'dead',
       version, errors, headers, payload, body, content_type, dead_at, reason, options, null
from jobwright_dead_letter_job where id = :id
limit 1
