-- Gates that a rate opens later than any period lasts: the clock was ahead. They open now, and a round finds out whether they may.
select count(*), coalesce(max(opens_at - :now), 0) from jobwright_opening
where opens_at > :now + 1000000 + coalesce((select max(period) from jobwright_rule), 0)
