-- name: primary
-- Like `server`, and null for a server that accepts no writes.
select case when not pg_is_in_recovery() and current_setting('transaction_read_only') = 'off'
            then system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) end
from pg_control_system()
