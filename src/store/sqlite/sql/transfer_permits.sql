-- Records the handlers of running jobs that an operator cancels, if they hold anything (a trigger transfers that), and if a live node or an
-- external worker can still report their end.
insert into jobwright_terminating_handler (holder, job_id, version, node, until)
select randomblob(16), id, version, {node}, {until}
from {table}
where admitted
  and exists (select 1 from jobwright_permit where job_id = {table}.id)
  and ({node} is null or exists (select 1 from jobwright_node where jobwright_node.id = {node} and dead_at is null))
  and {filter}
