-- As insert_job, for many rows without an owner: a statement that may fire a trigger keeps a journal of the pages it changes, which costs
-- more than the row.
insert into jobwright_job ({content}, seq, created_at, visible_at, options)
values {rows}
on conflict (id) do nothing
