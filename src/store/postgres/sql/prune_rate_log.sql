-- Forgets starts that no period reaches back to. A minute more than that, for rounds under way.
delete from {schema}.rate_log
where at < statement_timestamp() - interval '1 minute'
           - coalesce((select max(period) from {schema}.rule), 0) * interval '1 microsecond'
