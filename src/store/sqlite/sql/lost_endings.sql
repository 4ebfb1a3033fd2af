-- Handlers of cancelled jobs whose node is dead or unknown: nobody is left to say that they have ended.
delete from jobwright_ending
where node is not null and node not in (select id from jobwright_node where dead_at is null)
