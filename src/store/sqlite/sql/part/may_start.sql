-- Whether a waiting row `job` may be taken: it has not expired, nothing that covers it is paused, and it was admitted if a limit
-- covers it. The rules come first: without one, and without terms, a row costs no more than that look.
(
    (not exists (select 1 from jobwright_rule r where r.paused or r.running is not null or r.rate is not null)
     or not exists (
        select 1 from jobwright_rule r
        where (r.paused or not job.admitted and (r.running is not null or r.rate is not null)) and {covers}
     ))
    and (job.terms is null or job.terms ->> 'expires' is null or job.terms ->> 'expires' > :now)
)
