-- The longest expired first. Read before anything is changed under the same index.
select seq from {table}
where terms ->> 'expires' is not null and terms ->> 'expires' <= :now and {rows}
order by terms ->> 'expires' limit :limit
