-- A time to live, in microseconds. It may have been written by hand, and nothing may overflow.
least(greatest(floor((options ->> 'ttl'::text)::numeric), 0), 4000000000000000)::int8
