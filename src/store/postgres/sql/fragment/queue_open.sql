-- Whether a queue is not paused: checked once per statement, before a row of it is read.
(select not exists (
    select from {schema}.rule r
    where r.scope = 'queue' and r.paused
      and r.name in ({queue}, '*')
))
