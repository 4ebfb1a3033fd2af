-- The function `send` of PostgreSQL has more parameters; there is none here. So that versions mean the same on both, this one is here too.
-- Kept in history since: expired, beside done; failed, lost (to be tried again); dead, cancelled, deleted.
select 1 where false;
