-- Whether a queue is not paused: checked once per statement, before a row of it is read.
not exists (
    select 1 from jobwright_rule q
    where q.scope = 'queue' and q.paused
      and q.name in (:queue, '*')
)
