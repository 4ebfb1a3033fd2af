-- As retry_copy_dead, but spent attempts stay spent.
insert into jobwright_job ({carried}, version, attempt, errors, options)
select {carried}, version, attempt, errors, options
from jobwright_timer_job where {filter}
on conflict (id) do nothing
