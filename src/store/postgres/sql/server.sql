-- Which server answers, on which of its histories (timelines), and since when it runs. A standby that is promoted, or a backup that is
-- restored, begins a new history.
select system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) as history, pg_postmaster_start_time() as started
from pg_control_system()
