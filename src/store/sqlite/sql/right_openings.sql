-- What ahead_openings.sql finds.
update jobwright_opening
set opens_at = :now
where opens_at > :now + 1000000 + coalesce((select max(period) from jobwright_rule), 0)
