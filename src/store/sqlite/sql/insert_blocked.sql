-- A job of a group waits for admission.
insert into jobwright_blocked_job ({content}, seq, created_at, version, attempt, options, blocked_on)
values ({content_values}, :seq, :now, 0, 0, :options, :blocked_on)
on conflict (id) do nothing
