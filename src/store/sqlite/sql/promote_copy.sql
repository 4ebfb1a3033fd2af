-- Copies the rows that promote_remove removes: same time, order and limit, one transaction. An existing job of the same id is kept.
insert into jobwright_job ({carried}, version, attempt, errors, options)
select {carried}, version, attempt, errors, options
from jobwright_timer_job where due_at <= :now
order by due_at, seq limit :limit
on conflict (id) do nothing
