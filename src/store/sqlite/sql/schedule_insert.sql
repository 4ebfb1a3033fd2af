-- Only if there is no schedule of this name; otherwise the caller reads again.
insert into jobwright_schedule (name, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, created_at,
                                kind, queue, priority, max_attempts, payload, body, content_type, headers, options)
values (:name, :schedule, :zone, :misfire, :overlap, :until_at, :times, :anchor_at, :paused, :next_at, :now,
        :kind, :queue, :priority, :max_attempts, :payload, :body, :content_type, :headers, :options)
on conflict (name) do nothing
