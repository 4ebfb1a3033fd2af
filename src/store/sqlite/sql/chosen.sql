-- Oldest first; the caller merges the states.
select seq from {table} where {filter} order by seq limit :limit
