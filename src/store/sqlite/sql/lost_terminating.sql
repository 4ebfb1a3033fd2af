-- Removes handlers of cancelled jobs whose node is dead or unknown, because nothing else can report their end.
delete from jobwright_terminating_handler
where node is not null and node not in (select id from jobwright_node where dead_at is null)
