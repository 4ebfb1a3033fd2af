-- What a claimed job is made of, in the order in which it is read.
id, seq, version, kind, queue, rank, attempt, max_attempts, created_at, payload, body, content_type, headers, terms, admitted
