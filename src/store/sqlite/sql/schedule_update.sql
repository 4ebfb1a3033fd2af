-- Only if the version is still the one that was read; otherwise the caller reads again.
update jobwright_schedule
set version = version + 1, schedule = :schedule, zone = :zone, misfire = :misfire, overlap = :overlap, until_at = :until_at,
    times = :times, anchor_at = :anchor_at, paused = :paused, next_at = :next_at, kind = :kind, queue = :queue,
    priority = :priority, max_attempts = :max_attempts, payload = :payload, body = :body, content_type = :content_type,
    headers = :headers, options = :options
where name = :name and version = :seen
