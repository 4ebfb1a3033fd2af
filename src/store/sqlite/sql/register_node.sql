-- The lease starts at once: the first heartbeat may take a moment.
insert into jobwright_node (id, name, host, pid, lease, started_at, expires_at)
values (:node, :name, :host, :pid, :lease, :now, :now + :lease)
