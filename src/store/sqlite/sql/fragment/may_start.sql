-- Whether a waiting row `job` may be claimed: it has not expired, no rule pauses it, and it was admitted if a limit covers it. The rules
-- come first: without rules and options, a row costs no more than that check.
(
    (not exists (select 1 from jobwright_rule r where r.paused or r.running is not null or r.rate is not null)
     or not exists (
        select 1 from jobwright_rule r
        where (r.paused or not job.admitted and (r.running is not null or r.rate is not null)) and {covers}
     ))
    and (job.options is null or job.options ->> 'expires' is null or job.options ->> 'expires' > :now)
)
