-- Unblocked keys that no admission pass has read since: few, and for a short time, while there are executors. An unblock without a time (0)
-- took effect at once, and its age is unknown.
select count(*) as unblocks, coalesce(max(:now - unblock_at) filter (where unblock_at > 0), 0) as longest from jobwright_unblock where unblock_at <= :now
