-- After its copy has been made.
delete from {table} where seq = :seq
