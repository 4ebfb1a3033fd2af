-- As insert_job, for jobs that are due later.
insert into jobwright_timer_job (seq, due_at, created_at, id, max_attempts, rank, kind, queue, payload, body, content_type,
                                 headers, options)
values (:seq, :due_at, :now, :id, :max_attempts, :rank, :kind, :queue, :payload, :body, :content_type, :headers, :options)
on conflict (id) do nothing
