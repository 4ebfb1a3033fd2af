-- Like unknown_terminating.sql, for a claim whose answer got lost, where it is known which jobs it may have taken.
delete from {schema}.terminating_handler where job_id = any ($3::uuid[]) and node = $1 and version = $2
returning holder
