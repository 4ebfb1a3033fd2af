-- The longest expired first. Read completely before anything is changed under the same index.
select seq from {table}
where options ->> 'expires' is not null and options ->> 'expires' <= :now and {rows}
order by options ->> 'expires' limit :limit
