-- The options of a row that becomes a dead letter, without those that no statement could carry on: it may be retried, and nothing may stop the
-- jobs that are retried with it. (`::text` quotes a text, so a number in quotes is no number.)
case when jsonb_typeof(options) = 'object' and pg_column_size(options) <= 131072 and octet_length(options::text) <= 16384
     then options - array_remove(array[
         case when jsonb_typeof(options -> 'group'::text) <> 'string' or octet_length(options ->> 'group'::text) > 200 then 'group' end,
         case when jsonb_typeof(options -> 'tenant'::text) <> 'string' or octet_length(options ->> 'tenant'::text) > 200 then 'tenant' end,
         case when jsonb_typeof(options -> 'limit'::text) <> 'string' or octet_length(options ->> 'limit'::text) > 200 then 'limit' end,
         case when (options -> 'ttl'::text)::text !~ '^[0-9]{1,16}$' then 'ttl' end,
         case when (options -> 'expires'::text)::text !~ '^[0-9]{1,16}$' then 'expires' end,
         case when (options -> 'aged'::text)::text !~ '^[0-9]{1,5}$' then 'aged' end
     ], null)
     end
