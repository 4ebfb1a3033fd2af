-- Forgets starts that no period reaches back to.
delete from jobwright_rate_log where at < :now - 60000000 - coalesce((select max(period) from jobwright_rule), 0)
