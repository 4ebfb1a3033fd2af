-- Gates that opened and that no round has looked at since: few, and not for long, while there are executors. One without a moment (0)
-- opened at once, nobody knows when.
select count(*), coalesce(max(:now - opens_at) filter (where opens_at > 0), 0) from jobwright_opening where opens_at <= :now
