-- The options of a retried dead letter: its time to live starts again.
case when options ? 'ttl'::text
     then options || jsonb_build_object('expires', (extract(epoch from clock_timestamp())::float8 * 1000000::float8)::int8 + (options ->> 'ttl'::text)::int8)
     else options
end
