-- The newest that match; what they have in common is found by the caller.
select kind, queue, reason, dead_at, id from {table} where {filter} order by dead_at desc limit :limit
