-- Removes the jobs that an operator chose, in one state.
delete from {table} where {filter}
