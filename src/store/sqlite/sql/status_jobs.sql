-- One pass over the table. count(lock_owner) counts the owned rows.
select queue, count(*) - count(lock_owner) as waiting, count(lock_owner) as running,
       min(created_at) filter (where lock_owner is null) as oldest
from jobwright_job group by queue
