-- Tables of this schema whose updates or deletes a publication covers, and that have no replica identity: the server refuses each such update and
-- delete. Every role may read these catalogues.
select c.relname::text as relation, string_agg(p.pubname::text, ', ' order by p.pubname) as publications
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_publication_tables t on t.schemaname = n.nspname and t.tablename = c.relname
join pg_publication p on p.pubname = t.pubname and (p.pubupdate or p.pubdelete)
where n.nspname = $1
  and case c.relreplident when 'f' then false
                          when 'd' then not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and i.indisvalid)
                          when 'i' then not exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident and i.indisvalid)
                          else true end
group by 1
order by 1
