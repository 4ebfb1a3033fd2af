-- Whether a message is paused or limited by a rule: then it can't be born owned.
select exists (
    select 1
    from (select :queue as queue, :kind as kind, :terms as terms) as job, jobwright_rule as r
    where (r.paused or r.running is not null or r.rate is not null) and {covers}
)
