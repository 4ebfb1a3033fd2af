-- What an operation would touch.
select count(*) from {table} where {filter}
