-- Rows of `job` that no statement of the engine can carry on are refused when they come, and not when they keep others from being claimed, admitted
-- or released. The library and `send` refuse them too; SQL by hand, a restored table or a program of another hand may not.
--
-- What is refused is what makes a statement fail for all of its rows: a counter that can't be raised, a name or a group that no index takes, a time
-- without an end, an empty key (which no list shows), options that are no object, headers of a size that no build writes. A value that makes no sense and costs only its own job is not
-- refused.
--
-- The constraints are not validated: that would read the table, and old rows that break them must not keep an installation from being upgraded. Such
-- a row becomes a dead letter when a statement meets it (src/store/postgres/unreadable.rs). `alter table … validate constraint` may follow at any
-- time, and holds up nobody. Each claim checks them again, so they are short, and a job without options and headers pays for none of these.
-- The functions are found in the system catalogue alone, whatever this session's search path.
set local search_path = pg_catalog, pg_temp;

-- Whether the parts of a job that most jobs do not have are such that statements can carry them on. It is a function, because the server reads the
-- whole text of a constraint for each statement that writes a row: as an expression, this one took longer than the insert. Its search path is
-- fixed: what it calls can't be replaced. Whoever may insert a job needs to execute it, also where new functions are not for everybody.
-- An option that is not given is null, and so is what is said about it. Sizes are those of the text: what is stored may be compressed, and is not so
-- in the next statement that changes it.
create function {schema}.is_carriable(options jsonb, headers jsonb) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $carriable$
begin
    return coalesce(
            jsonb_typeof(options) = 'object' and pg_column_size(options) <= 131072 and octet_length(options::text) <= 16384
                and coalesce(jsonb_typeof(options -> 'group') = 'string' and octet_length(options ->> 'group') <= 200, true)
                and coalesce(octet_length(options ->> 'tenant') <= 200, true)
                and coalesce(octet_length(options ->> 'limit') <= 200, true)
                and coalesce((options ->> 'expires')::int8 between 0 and 9999999999999999, true)
                and coalesce((options ->> 'ttl')::int8 between 0 and 9999999999999999, true)
                and coalesce((options ->> 'aged')::int8 between 0 and 99999, true), true)
        and coalesce(
            jsonb_typeof(headers) = 'object'
                -- A number may be a thousand times as long in text as it is stored, and a header has no numbers.
                and case when jsonb_path_exists(headers, '$.* ? (@.type() != "string")') then pg_column_size(headers) <= 65536
                         else octet_length(headers::text) <= 524288 end, true);
end
$carriable$;
grant execute on function {schema}.is_carriable(jsonb, jsonb) to public;
comment on function {schema}.is_carriable is 'whether statements can carry these parts of a job on: a constraint of the tables of jobs';

alter table {schema}.job
    add constraint job_numbers check (
        attempt between 0 and 2000000000 and rank > -32768 and isfinite(created_at)
        and greatest(octet_length(kind), octet_length(queue)) <= 100 and blocked_on <> ''
    ) not valid,
    add constraint job_options check (
        coalesce(options, headers) is null or {schema}.is_carriable(options, headers)
    ) not valid;
