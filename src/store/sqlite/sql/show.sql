-- Each arm is one lookup in a unique index.
select {carried}, version, attempt, errors, options, errors ->> '$[#-1].error' as last_error,
       case when lock_owner is null then 'waiting' else 'running' end as state,
       null as due_at, lock_owner as owner, claimed_at, null as blocked_on, null as dead_at, null as reason
from jobwright_job where id = :id
union all
select {carried}, version, attempt, errors, options, errors ->> '$[#-1].error', 'blocked', null, null, null, blocked_on, null, null
from jobwright_blocked_job where id = :id
union all
select {carried}, version, attempt, errors, options, errors ->> '$[#-1].error', 'external', null, null, null, null, null, null
from jobwright_external_job where id = :id
union all
select {carried}, version, attempt, errors, options, errors ->> '$[#-1].error', 'timer', due_at, null, null, null, null, null
from jobwright_timer_job where id = :id
union all
select {carried}, version, attempt, errors, options, errors ->> '$[#-1].error', 'suspended', due_at, null, null, null, null, null
from jobwright_suspended_job where id = :id
union all
select {carried}, version, attempt, errors, options, errors ->> '$[#-1].error', 'dead', null, null, null, null, dead_at, reason
from jobwright_dead_letter_job where id = :id
limit 1
