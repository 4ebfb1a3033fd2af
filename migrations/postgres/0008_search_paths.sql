-- Functions mean the same whatever the search path of their caller is. A function or operator that fits its arguments exactly wins over one that needs
-- a conversion, in whichever schema of the path it is: who may create objects in such a schema could run code as the caller. Replacing a function
-- locks no table.

-- As before, but that `->>` has operands of its own types. It has no path of its own: then it could not be inlined into the statements.
create or replace function {schema}.subject(scope text, queue text, kind text, options jsonb) returns text
language sql immutable
as $subject$
    select case scope when 'queue' then queue when 'kind' then kind when 'tenant' then options ->> 'tenant'::text
                      when 'key' then options ->> 'limit'::text else options ->> 'group'::text end
$subject$;

-- As before, but that operands of `->` and `->>` are of their own types.
create or replace function {schema}.key_of(options jsonb) returns bytea
language sql immutable parallel safe
as $key$
    select case when options -> 'unique'::text ->> 'key'::text ~ '^([0-9a-f]{2})+$'
                then pg_catalog.decode(options -> 'unique'::text ->> 'key'::text, 'hex') end
$key$;

-- It is called by users alone.
alter function {schema}.wake(text) set search_path = pg_catalog, pg_temp;
