-- The options of a retried dead letter: its time to live starts again.
case when options ? 'ttl'
     then options || jsonb_build_object('expires', (extract(epoch from clock_timestamp()) * 1000000)::int8 + (options ->> 'ttl')::int8)
     else options
end
