-- Counts the jobs that an operation would affect.
select count(*) from {table} where {filter}
