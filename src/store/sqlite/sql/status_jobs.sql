-- One pass over the table. count(lock_owner) counts the owned rows.
select queue, count(*) - count(lock_owner), count(lock_owner), min(created_at) filter (where lock_owner is null)
from jobwright_job group by queue
