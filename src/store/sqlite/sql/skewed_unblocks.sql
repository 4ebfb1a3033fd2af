-- Keys that a rate unblocks later than any period lasts: the clock was ahead. They are unblocked now, and an admission pass finds out
-- whether jobs may start.
select count(*) as n, coalesce(max(unblock_at - :now), 0) as far from jobwright_unblock
where unblock_at > :now + 1000000 + coalesce((select max(period) from jobwright_rule), 0)
