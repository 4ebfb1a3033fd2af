-- The number of starts within the period, and the time of the first one.
select coalesce(sum(n), 0) as n, coalesce(min(at), :now) as oldest from jobwright_rate_log where key = :key and at > :after
