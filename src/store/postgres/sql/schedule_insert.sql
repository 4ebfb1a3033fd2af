-- Only if there is no schedule of this name; otherwise the caller reads again.
-- :name::text, :schedule::text, :zone::text, :misfire::text, :overlap::text, :until_at::timestamptz, :times::int8,
-- :anchor_at::timestamptz, :paused::bool, :next_at::timestamptz, :kind::text, :queue::text, :priority::int2, :max_attempts::int4,
-- :payload::jsonb, :body::bytea, :content_type::text, :headers::jsonb, :options::jsonb
insert into {schema}.schedule (name, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at,
                               kind, queue, priority, max_attempts, payload, body, content_type, headers, options)
values (:name, :schedule, :zone, :misfire, :overlap, :until_at, :times, :anchor_at, :paused, :next_at,
        :kind, :queue, :priority, :max_attempts, :payload, :body, :content_type, :headers, :options)
on conflict (name) do nothing
returning name
