-- One row a call: prepared once, within one transaction, a row costs a few microseconds. The same message twice is one job.
insert into jobwright_job (seq, version, lock_owner, claimed_at, created_at, id, attempt, max_attempts, rank, kind, queue,
                           payload, body, content_type, headers, held_until, terms)
values (:seq, :version, :owner, :claimed_at, :now, :id, :attempt, :max_attempts, :rank, :kind, :queue,
        :payload, :body, :content_type, :headers, :held_until, :terms)
on conflict (id) do nothing
