-- Removes what promote_copy copied, and what it did not need to.
delete from jobwright_timer_job
where seq in (select seq from jobwright_timer_job where due_at <= :now order by due_at, seq limit :limit)
returning queue, terms ->> 'group' is not null
