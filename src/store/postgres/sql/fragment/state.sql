-- The state of a row of `job`. An owned row may have a key too: a node runs it in a group run, and if it is released it is blocked on the
-- key again.
case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end
