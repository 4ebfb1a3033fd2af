-- One step in the index of one table: whether anything has expired, and when to look again. What runs does not expire.
select min(terms ->> 'expires') from {table} where terms ->> 'expires' is not null and {rows}
