-- Changes jobs in place. Moving to another queue invalidates earlier deliveries, so the version rises. A moved job remembers the queue that it was sent
-- to, so that its sender may send it again (known_as.sql). Options that are no JSON stay as they are.
update {table}
set rank = coalesce(:to_rank, rank), max_attempts = coalesce(:to_attempts, max_attempts),
    version = (version + (queue <> coalesce(:to_queue, queue))) & 2147483647, queue = coalesce(:to_queue, queue),
    options = case when queue <> coalesce(:to_queue, queue) and coalesce(json_valid(options), true)
                   then json_set(coalesce(options, '{}'), '$.sentTo', coalesce(json_extract(options, '$.sentTo'), queue)) else options end{due}
where {filter}
