-- Only if the version is still the one that was read; otherwise the caller reads again.
-- :name::text, :schedule::text, :zone::text, :misfire::text, :overlap::text, :until_at::timestamptz, :times::int8,
-- :anchor_at::timestamptz, :paused::bool, :next_at::timestamptz, :kind::text, :queue::text, :priority::int2, :max_attempts::int4,
-- :payload::jsonb, :body::bytea, :content_type::text, :headers::jsonb, :options::jsonb, :seen::int8
update {schema}.schedule
set version = version + 1, schedule = :schedule, zone = :zone, misfire = :misfire, overlap = :overlap,
    until_at = :until_at, times = :times, anchor_at = :anchor_at,
    paused = :paused, next_at = :next_at, kind = :kind, queue = :queue, priority = :priority, max_attempts = :max_attempts,
    payload = :payload, body = :body, content_type = :content_type, headers = :headers, options = :options
where name = :name and version = :seen
returning name
