-- As insert_job, for jobs that are due later.
insert into jobwright_timer_job ({content}, seq, created_at, due_at, options)
values ({content_values}, :seq, :now, :due_at, :options)
on conflict (id) do nothing
