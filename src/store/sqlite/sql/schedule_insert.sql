-- Only if there is none of this name: else the caller looks again.
insert into jobwright_schedule (name, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, created_at,
                                kind, queue, priority, max_attempts, payload, body, content_type, headers, terms)
values (:name, :schedule, :zone, :misfire, :overlap, :until_at, :times, :anchor_at, :paused, :next_at, :now,
        :kind, :queue, :priority, :max_attempts, :payload, :body, :content_type, :headers, :terms)
on conflict (name) do nothing
