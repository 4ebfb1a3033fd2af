-- A job that was handed out in the future counts as handed out now, and its lease keeps its length. A lease that was extended while the
-- clock was ahead ends no later than the longest that a worker may ask for, or the one that it was handed out with.
select count(*) as n, coalesce(max(lease_until - :now - lease), 0) as far from jobwright_external_job
where handed_at > :now + 1000000 or lease_until > :now + 1000000 + max(lease, :longest)
