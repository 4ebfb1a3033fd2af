-- Schemas of this role's search path in which others than their owner may create objects. The path is that of the session's beginning: this transaction
-- has one of its own.
with path as (
    select btrim(entry, ' "') as entry
    from pg_settings s cross join lateral unnest(string_to_array(s.reset_val, ',')) as entry
    where s.name = 'search_path'
)
select n.nspname::text as schema, string_agg(distinct case when a.grantee = 0 then 'public' else quote_ident(r.rolname) end, ', ') as who
from path p
join pg_namespace n on n.nspname = case p.entry when '$user' then session_user::text else p.entry end
cross join lateral aclexplode(n.nspacl) a
left join pg_roles r on r.oid = a.grantee
where a.privilege_type = 'CREATE'
  and a.grantee <> n.nspowner
  and (a.grantee = 0 or r.rolname is distinct from session_user and not coalesce(r.rolsuper, false))
group by 1
order by 1
