-- Which server answers, on which of its histories (timelines), and since when. A standby that was promoted, or a backup that was restored,
-- begins a new one.
select system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_postmaster_start_time()
from pg_control_system()
