-- The identifier that a server shares with its standbys and physical backups, and with no other server.
select system_identifier from pg_catalog.pg_control_system()
