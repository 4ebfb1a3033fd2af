-- Only if there is no schedule of this name; otherwise the caller reads again.
insert into {schema}.schedule (name, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at,
                               kind, queue, priority, max_attempts, payload, body, content_type, headers, options)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
on conflict (name) do nothing
returning name
