-- The columns of a claimed job, in the order in which they are read.
id, seq, version, kind, queue, rank, attempt, max_attempts, created_at, payload, body, content_type, headers, options, admitted
