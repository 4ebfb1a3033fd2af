-- Runs before the row moves or is deleted, in the same transaction.
insert into jobwright_history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, ended_at, node, tenant, error)
select id, seq, kind, queue, :outcome, attempt, created_at, {started}, :now, {node}, options ->> '$.tenant', :why
from {table} where {filter}
