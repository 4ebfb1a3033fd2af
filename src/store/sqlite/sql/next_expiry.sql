-- One index step in one table: whether anything has expired, and when to check again. Running jobs do not expire.
select min(options ->> 'expires') from {table} where options ->> 'expires' is not null and {rows}
