-- Handlers of cancelled jobs whose node is dead or unknown: nobody is left to say that they have ended.
delete from {schema}.ending e
where e.node is not null and not exists (select from {schema}.node n where n.id = e.node and n.dead_at is null)
returning holder
