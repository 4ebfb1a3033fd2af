-- The options of a retried dead letter: its time to live starts again.
case when jsonb_typeof(options -> 'ttl'::text) = 'number'
     then options || jsonb_build_object('expires', (extract(epoch from clock_timestamp())::float8 * 1000000::float8)::int8 + {ttl})
     else options
end
