-- Repairs the rows that skewed_unblocks.sql finds.
update jobwright_unblock
set unblock_at = :now
where unblock_at > :now + 1000000 + coalesce((select max(period) from jobwright_rule), 0)
