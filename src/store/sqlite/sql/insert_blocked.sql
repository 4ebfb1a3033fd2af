-- A job of a group waits for admission.
insert into jobwright_blocked_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                                   payload, body, content_type, headers, options, blocked_on)
values (:seq, 0, :now, :id, 0, :max_attempts, :rank, :kind, :queue, :payload, :body, :content_type, :headers, :options, :blocked_on)
on conflict (id) do nothing
