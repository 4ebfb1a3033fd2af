-- Who lives is told by a file beside the database for each node, which its process holds locked and writes its heartbeats to: that needs
-- neither the one write lock nor a clock. `expires_at` is no longer kept.
alter table jobwright_node add column condemned integer not null default 0;
