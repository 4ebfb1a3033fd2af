-- Checks whether the parts of a job that most jobs do not have can be carried on, as 0003 does, at a quarter of its cost. Each insert, admission and claim of
-- a job with options asks it: for jobs of groups it took a sixth of all the time that they need.
--
-- It has no search path of its own, because to set one takes longer than the checks. So each operator, function and type in it is named with its
-- schema, and `between`, `in` and `case` with a value, which look for operators, do not occur. Options that are short and have no numbers, which is
-- nearly all of them, need none of the other checks. How large they are as stored is asked first: a number may be a thousand times as long in text.
-- The types of its parameters are found in the system catalogue, whatever this session's search path.
set local search_path = pg_catalog, pg_temp;

create or replace function {schema}.is_carriable(options jsonb, headers jsonb) returns boolean
language plpgsql immutable
as $carriable$
begin
    if headers is null and pg_catalog.pg_column_size(options) operator(pg_catalog.<=) 1000
        and pg_catalog.octet_length(options::pg_catalog.text) operator(pg_catalog.<=) 200
        and pg_catalog.jsonb_typeof(options) operator(pg_catalog.=) 'object'::pg_catalog.text
        and coalesce(pg_catalog.jsonb_typeof(options operator(pg_catalog.->) 'group'::pg_catalog.text) operator(pg_catalog.=) 'string'::pg_catalog.text, true)
        and not (options operator(pg_catalog.?|) '{expires,ttl,aged}'::pg_catalog.text[])
    then
        return true;
    end if;
    return coalesce(
            pg_catalog.jsonb_typeof(options) operator(pg_catalog.=) 'object'::pg_catalog.text
                and pg_catalog.pg_column_size(options) operator(pg_catalog.<=) 131072
                and pg_catalog.octet_length(options::pg_catalog.text) operator(pg_catalog.<=) 16384
                and coalesce(pg_catalog.jsonb_typeof(options operator(pg_catalog.->) 'group'::pg_catalog.text) operator(pg_catalog.=) 'string'::pg_catalog.text
                             and pg_catalog.octet_length(options operator(pg_catalog.->>) 'group'::pg_catalog.text) operator(pg_catalog.<=) 200, true)
                and coalesce(pg_catalog.octet_length(options operator(pg_catalog.->>) 'tenant'::pg_catalog.text) operator(pg_catalog.<=) 200, true)
                and coalesce(pg_catalog.octet_length(options operator(pg_catalog.->>) 'limit'::pg_catalog.text) operator(pg_catalog.<=) 200, true)
                and coalesce((options operator(pg_catalog.->>) 'expires'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.>=) 0::pg_catalog.int8
                             and (options operator(pg_catalog.->>) 'expires'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.<=) 9999999999999999::pg_catalog.int8, true)
                and coalesce((options operator(pg_catalog.->>) 'ttl'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.>=) 0::pg_catalog.int8
                             and (options operator(pg_catalog.->>) 'ttl'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.<=) 9999999999999999::pg_catalog.int8, true)
                and coalesce((options operator(pg_catalog.->>) 'aged'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.>=) 0::pg_catalog.int8
                             and (options operator(pg_catalog.->>) 'aged'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.<=) 99999::pg_catalog.int8, true), true)
        and coalesce(
            pg_catalog.jsonb_typeof(headers) operator(pg_catalog.=) 'object'::pg_catalog.text
                -- A number may be a thousand times as long in text as it is stored, and a header has no numbers.
                and case when pg_catalog.jsonb_path_exists(headers, '$.* ? (@.type() != "string")'::pg_catalog.jsonpath)
                         then pg_catalog.pg_column_size(headers) operator(pg_catalog.<=) 65536
                         else pg_catalog.octet_length(headers::pg_catalog.text) operator(pg_catalog.<=) 524288 end, true);
end
$carriable$;
