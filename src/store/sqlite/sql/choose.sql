-- The jobs that an operator chose, in one state.
select seq, id from {table} where {filter}
