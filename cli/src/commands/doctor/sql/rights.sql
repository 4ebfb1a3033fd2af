-- Those of these rights that this role lacks, each as its kind, object, privilege and column. What does not exist is a missing migration, which another
-- check finds. A right on some columns counts as one on the table.
select n.privilege || coalesce(' (' || n.column_name || ')', '') || case n.kind when 'table' then ' on ' else ' on ' || n.kind || ' ' end || n.object as lacks
from unnest($2::text[], $3::text[], $4::text[], $5::text[]) with ordinality as n(kind, object, privilege, column_name, place)
where case n.kind
          when 'schema' then not has_schema_privilege($1::text, n.privilege)
          when 'sequence' then not has_sequence_privilege(to_regclass(format('%I.%I', $1::text, n.object))::oid, n.privilege)
          when 'function' then exists (select from pg_proc p join pg_namespace s on s.oid = p.pronamespace
                                       where s.nspname = $1::text and p.proname = n.object and not has_function_privilege(p.oid, n.privilege))
          when 'table' then case
              when n.column_name is not null
              then not has_column_privilege(to_regclass(format('%I.%I', $1::text, n.object))::oid, n.column_name, n.privilege)
              when n.privilege = 'delete' then not has_table_privilege(to_regclass(format('%I.%I', $1::text, n.object))::oid, n.privilege)
              else not has_any_column_privilege(to_regclass(format('%I.%I', $1::text, n.object))::oid, n.privilege) end
      end
order by n.place
