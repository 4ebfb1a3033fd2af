-- As insert_job, for many rows that nobody owns yet: a statement that may fire a trigger keeps a journal of the pages it changes,
-- which costs more than the row.
insert into jobwright_job (seq, created_at, id, max_attempts, rank, kind, queue, payload, body, content_type, headers, held_until, terms)
values {rows}
on conflict (id) do nothing
