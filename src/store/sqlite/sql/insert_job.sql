-- One row per call: prepared once, within one transaction, a row costs a few microseconds. The same message twice is one job.
insert into jobwright_job (seq, version, lock_owner, claimed_at, created_at, id, attempt, max_attempts, rank, kind, queue,
                           payload, body, content_type, headers, visible_at, options)
values (:seq, :version, :owner, :claimed_at, :now, :id, :attempt, :max_attempts, :rank, :kind, :queue,
        :payload, :body, :content_type, :headers, :visible_at, :options)
on conflict (id) do nothing
