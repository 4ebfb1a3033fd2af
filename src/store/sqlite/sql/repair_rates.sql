-- Repairs the rows that skewed_rates.sql finds.
update jobwright_rate_log
set at = :now
where at > :now + 1000000
