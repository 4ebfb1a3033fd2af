-- The terms of a dead letter that starts again: it lives as long again.
case when terms ? 'ttl'
     then terms || jsonb_build_object('expires', (extract(epoch from clock_timestamp()) * 1000000)::int8 + (terms ->> 'ttl')::int8)
     else terms
end
