-- The handlers of what an operator cancels while it runs, if it holds anything (a trigger hands that over), and somebody answers for them.
insert into jobwright_ending (holder, job_id, version, node, until)
select randomblob(16), id, version, {node}, {until}
from {table}
where admitted
  and exists (select 1 from jobwright_slot where job_id = {table}.id)
  and ({node} is null or exists (select 1 from jobwright_node where jobwright_node.id = {node} and dead_at is null))
  and {filter}
