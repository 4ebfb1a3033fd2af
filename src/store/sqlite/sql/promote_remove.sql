-- Removes the rows that promote_copy copied, and those whose job existed already.
delete from jobwright_timer_job
where seq in (select seq from jobwright_timer_job where due_at <= :now order by due_at, seq limit :limit)
returning queue, options ->> 'group' is not null as blocked
