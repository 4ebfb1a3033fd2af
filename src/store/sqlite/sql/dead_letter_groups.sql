-- The newest dead letters that match; the caller groups them.
select kind, queue, reason, dead_at, id from {table} where {filter} order by dead_at desc limit :limit
