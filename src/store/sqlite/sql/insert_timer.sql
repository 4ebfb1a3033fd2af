-- As insert_job, for what is due later.
insert into jobwright_timer_job (seq, due_at, created_at, id, max_attempts, rank, kind, queue, payload, body, content_type,
                                 headers, terms)
values (:seq, :due_at, :now, :id, :max_attempts, :rank, :kind, :queue, :payload, :body, :content_type, :headers, :terms)
on conflict (id) do nothing
