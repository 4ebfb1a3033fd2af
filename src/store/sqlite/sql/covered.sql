-- Whether a rule pauses or limits a message: then it can't be inserted as preclaimed.
select exists (
    select 1
    from (select :queue as queue, :kind as kind, :options as options) as job, jobwright_rule as r
    where (r.paused or r.running is not null or r.rate is not null) and {covers}
)
