-- The process that registers draws the id. If it exists, nothing is inserted, and another one is drawn: no process may pass for another
-- one.
-- The lease starts at once: the first heartbeat may take a moment.
insert into jobwright_node (id, name, host, pid, lease, started_at, expires_at)
values (:node, :name, :host, :pid, :lease, :now, :now + :lease)
on conflict (id) do nothing
