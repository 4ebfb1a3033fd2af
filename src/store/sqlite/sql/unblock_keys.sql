-- Unblocks the keys that a rule concerns: its own, or, for the rule for all ('*'), every key of its scope.
insert into jobwright_unblock (key, n)
select distinct blocked_on, 100 from jobwright_blocked_job
where blocked_on = :blocked_on or :name = '*' and substr(blocked_on, 1, 2) = :prefix
