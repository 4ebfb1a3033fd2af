-- Changes jobs in place. Moving to another queue invalidates earlier deliveries, so the version rises.
update {table}
set rank = coalesce(:to_rank, rank), max_attempts = coalesce(:to_attempts, max_attempts),
    version = (version + (queue <> coalesce(:to_queue, queue))) & 2147483647, queue = coalesce(:to_queue, queue){due}
where {filter}
