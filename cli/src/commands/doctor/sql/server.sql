-- One row about the server, for any role: its version, whether it accepts writes, and its clock.
select current_setting('server_version_num')::int as version,
       current_setting('server_version') as version_text,
       current_setting('transaction_read_only') = 'on' as read_only,
       pg_is_in_recovery() as standby,
       extract(epoch from clock_timestamp())::float8 as now
