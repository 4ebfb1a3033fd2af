-- What started within the period, and when the first of it did.
select coalesce(sum(n), 0), coalesce(min(at), :now) from jobwright_rate_log where key = :key and at > :after
