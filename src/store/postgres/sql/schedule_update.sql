-- Only if the version is still the one that was read; otherwise the caller reads again.
update {schema}.schedule
set version = version + 1, schedule = $2, zone = $3, misfire = $4, overlap = $5, until_at = $6, times = $7, anchor_at = $8,
    paused = $9, next_at = $10, kind = $11, queue = $12, priority = $13, max_attempts = $14, payload = $15, body = $16,
    content_type = $17, headers = $18, options = $19
where name = $1 and version = $20
returning name
