-- The rights that this role lacks, for sending and for executing. A right on some columns counts: the roles of docs/operations.md have those.
with needed (purpose, relation, privilege) as (
  values ('send', 'job', 'insert'), ('send', 'timer_job', 'insert'),
         ('execute', 'job', 'select'), ('execute', 'job', 'insert'), ('execute', 'job', 'update'), ('execute', 'job', 'delete'),
         ('execute', 'timer_job', 'select'), ('execute', 'timer_job', 'insert'), ('execute', 'timer_job', 'update'),
         ('execute', 'timer_job', 'delete'),
         ('execute', 'node', 'select'), ('execute', 'node', 'insert'), ('execute', 'node', 'update'), ('execute', 'node', 'delete'),
         ('execute', 'dead_letter_job', 'insert'), ('execute', 'migration', 'select')
)
select purpose, privilege || ' on ' || relation as lacks
from needed
where case when privilege = 'delete'
           then not has_table_privilege(format('%I.%I', $1::text, relation), privilege)
           else not has_any_column_privilege(format('%I.%I', $1::text, relation), privilege) end
union all
-- Missing sequences mean a missing migration, which another check finds.
select 'execute', 'update on shared_cursor_' || n
from generate_series(0, 15) as n
where not has_sequence_privilege(to_regclass(format('%I.shared_cursor_%s', $1::text, n))::oid, 'update')
union all
-- The same holds for a missing table.
select 'execute', 'select on report_key (for queues of external workers)'
where not has_any_column_privilege(to_regclass(format('%I.report_key', $1::text))::oid, 'select')
order by 1, 2
