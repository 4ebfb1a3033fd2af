-- `send` checks headers as the library does: their number, their names and their lengths. Without that, a few megabytes of rows took gigabytes of
-- the executors that claimed them. And the view `jobs` can show every row.

set local search_path = pg_catalog, pg_temp;

-- Sends a job in the caller's transaction and returns its id.
-- A unique key is held until the job is gone. While another job of this kind holds it, nothing is sent, and the id of that job is returned. It sends
-- no NOTIFY, which would serialise the commits of the whole database. Executors find the job at their next poll, or at once if the caller calls
-- `wake` after its commit.
-- It checks what the library checks. It never writes out, as text, a payload whose numbers alone are larger than a payload may be: that took
-- gigabytes before it was refused.
create or replace function {schema}.send(
    kind            text,
    payload         jsonb,
    queue           text default 'default',
    priority        integer default 0,
    due_at          timestamptz default now(),
    exclusive_group text default null,
    unique_key      text default null,
    max_attempts    integer default null,
    headers         jsonb default '{}',
    ttl             interval default null,
    tenant          text default null,
    limit_key       text default null
) returns uuid
language plpgsql
set search_path = pg_catalog, pg_temp
as $send$
declare
    moment constant timestamptz := clock_timestamp();
    -- UUIDv7 (RFC 9562): 48 bits of milliseconds, then random, with version and variant set.
    job_id constant uuid := encode(
        set_byte(set_byte(
            substring(int8send((extract(epoch from moment) * 1000)::bigint) from 3)
                || substring(uuid_send(gen_random_uuid()) from 7),
            6, (get_byte(uuid_send(gen_random_uuid()), 0) & 15) | 112),
            8, (get_byte(uuid_send(gen_random_uuid()), 0) & 63) | 128), 'hex')::uuid;
    attempts constant integer := coalesce(send.max_attempts, 10);
    digest bytea;
    holder uuid;
    number jsonb;
    header record;
    digits integer := 0;
    -- In microseconds, as the library counts them: a month has 30 days. A value that is out of range is refused below.
    lives constant int8 := case when ttl is not null then extract(epoch from least(greatest(ttl, interval '0'), interval '101 years')) * 1000000 end;
    -- Options that are not asked for are left out; a plain job has none at all.
    job_options jsonb := nullif(jsonb_strip_nulls(jsonb_build_object(
        'group', exclusive_group, 'tenant', tenant, 'limit', limit_key, 'ttl', lives,
        'expires', (extract(epoch from moment) * 1000000)::int8 + lives)), '{}');
begin
    if kind is null or kind = '' or octet_length(kind) > 100 or kind ~ '[[:cntrl:]]' or kind <> btrim(kind) then
        raise exception 'jobwright.send: the kind % is empty, longer than 100 bytes, or has control characters or outer blanks', quote_nullable(kind)
            using errcode = 'invalid_parameter_value';
    end if;
    if queue is null or queue = '' or octet_length(queue) > 100 or queue ~ '[[:cntrl:]]' or queue <> btrim(queue) then
        raise exception 'jobwright.send: the queue % is empty, longer than 100 bytes, or has control characters or outer blanks', quote_nullable(queue)
            using errcode = 'invalid_parameter_value';
    end if;
    if payload is null then
        raise exception 'jobwright.send: the payload is null; send ''null''::jsonb if that is meant'
            using errcode = 'invalid_parameter_value';
    end if;
    -- A number of a few bytes may have 131,000 digits, and a payload of them more digits than the server has memory. All other values are about as
    -- long in text as they are stored.
    for number in
        select n from jsonb_array_elements(jsonb_path_query_array(payload, 'strict $.** ? (@.type() == "number")')) n
    loop
        digits := digits + octet_length(number::text);
        if digits > 1048576 then
            raise exception 'jobwright.send: the numbers of the payload have more than 1048576 digits: send them as strings'
                using errcode = 'invalid_parameter_value';
        end if;
    end loop;
    if octet_length(payload::text) > 1048576 then
        raise exception 'jobwright.send: the payload has % bytes, 1048576 is the limit: store it elsewhere and send a reference', octet_length(payload::text)
            using errcode = 'invalid_parameter_value';
    end if;
    if priority is null or priority not between -32767 and 32767 then
        raise exception 'jobwright.send: the priority is %; use -32767 to 32767', coalesce(priority::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if attempts not between 1 and 1000000000 then
        raise exception 'jobwright.send: max_attempts is %; use 1 to 1000000000', attempts
            using errcode = 'invalid_parameter_value';
    end if;
    if due_at is null or due_at > moment + interval '100 years' then
        raise exception 'jobwright.send: due_at is %; it can''t be null or more than 100 years ahead', coalesce(due_at::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if headers is null or jsonb_typeof(headers) <> 'object' then
        raise exception 'jobwright.send: headers must be a JSON object whose values are strings'
            using errcode = 'invalid_parameter_value';
    end if;
    if headers <> '{}' then
        -- Counted before they are looked at: there may be a million.
        if (select count(*) from (select from jsonb_object_keys(headers) limit 65) h) > 64 then
            raise exception 'jobwright.send: the job has more than 64 headers; put what they say into the payload'
                using errcode = 'invalid_parameter_value';
        end if;
        select h.key, h.value into header from jsonb_each(headers) h where jsonb_typeof(h.value) <> 'string' limit 1;
        if found then
            raise exception 'jobwright.send: headers must be a JSON object whose values are strings, and that of % is none', quote_literal(left(header.key, 100))
                using errcode = 'invalid_parameter_value';
        end if;
        select h.key, octet_length(h.value) as bytes into header
        from jsonb_each_text(headers) h
        where h.key = '' or octet_length(h.key) > 100 or h.key ~ '[[:cntrl:]]' or h.key <> btrim(h.key) or octet_length(h.value) > 4096
        limit 1;
        if found and header.bytes > 4096 then
            raise exception 'jobwright.send: the value of header % has % bytes; 4096 is the most, put it into the payload', quote_literal(left(header.key, 100)), header.bytes
                using errcode = 'invalid_parameter_value';
        elsif found then
            raise exception 'jobwright.send: the header name % is empty, longer than 100 bytes, or has control characters or outer blanks', quote_literal(left(header.key, 100))
                using errcode = 'invalid_parameter_value';
        end if;
    end if;
    if exclusive_group is not null and (exclusive_group = '' or octet_length(exclusive_group) > 200 or exclusive_group ~ '[[:cntrl:]]') then
        raise exception 'jobwright.send: the exclusive_group % is empty, longer than 200 bytes, or has control characters', quote_nullable(exclusive_group)
            using errcode = 'invalid_parameter_value';
    end if;
    if tenant is not null and (tenant = '' or octet_length(tenant) > 200 or tenant ~ '[[:cntrl:]]' or tenant <> btrim(tenant)) then
        raise exception 'jobwright.send: the tenant % is empty, longer than 200 bytes, or has control characters or outer blanks', quote_nullable(tenant)
            using errcode = 'invalid_parameter_value';
    end if;
    if limit_key is not null and (limit_key = '' or octet_length(limit_key) > 200 or limit_key ~ '[[:cntrl:]]' or limit_key <> btrim(limit_key)) then
        raise exception 'jobwright.send: the limit_key % is empty, longer than 200 bytes, or has control characters or outer blanks', quote_nullable(limit_key)
            using errcode = 'invalid_parameter_value';
    end if;
    if ttl is not null and (lives < 1000 or ttl > interval '100 years') then
        raise exception 'jobwright.send: the ttl is %; use 1 millisecond to 100 years', ttl
            using errcode = 'invalid_parameter_value';
    end if;
    -- The caller may have computed due_at from now(), the beginning of its transaction.
    if ttl is not null and due_at >= moment + ttl then
        raise exception 'jobwright.send: the job would never run: it is due at % and lives for %; make the ttl longer than the delay', due_at, ttl
            using errcode = 'invalid_parameter_value';
    end if;
    if unique_key is not null then
        if unique_key = '' or octet_length(unique_key) > 200 or unique_key ~ '[[:cntrl:]]' then
            raise exception 'jobwright.send: the unique_key % is empty, longer than 200 bytes, or has control characters', quote_nullable(unique_key)
                using errcode = 'invalid_parameter_value';
        end if;
        -- The same digest as the library's, so that jobs sent in either way are unique together.
        select sha256(string_agg(int8send(octet_length(part)::int8) || part, ''::bytea order by n)) into digest
        from unnest(array[convert_to('jobwright unique 1', 'UTF8'), convert_to('key', 'UTF8'), convert_to(send.kind, 'UTF8'), ''::bytea,
                          convert_to(unique_key, 'UTF8')]) with ordinality as parts(part, n);
        select t.holder into holder
        from {schema}.take_unique(array[digest], array[job_id], array['done'], array[null::int8], array['keep']) t
        where t.verdict = 'kept';
        if found then
            return holder;
        end if;
        job_options := coalesce(job_options, '{}') || jsonb_build_object('unique',
            jsonb_build_object('key', encode(digest, 'hex'), 'hold', 'done', 'conflict', 'keep'));
    end if;

    if due_at <= moment then
        insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, headers, created_at, options)
        values (job_id, send.kind, send.queue, -send.priority, attempts, send.payload, nullif(send.headers, '{}'), moment, job_options);
    else
        insert into {schema}.timer_job (id, kind, queue, rank, max_attempts, payload, headers, created_at, options, due_at)
        values (job_id, send.kind, send.queue, -send.priority, attempts, send.payload, nullif(send.headers, '{}'), moment, job_options, send.due_at);
    end if;
    return job_id;
end
$send$;

-- A row is a job, in whichever table it is, with its state as a word. No priority is above 32767: a rank that has no priority was written by hand,
-- and must not keep all jobs from being listed.
create or replace view {schema}.jobs as
    select id, seq, case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end as state, kind, queue,
           -greatest(rank, (-32767)::int2) as priority, attempt, max_attempts, version::bigint, created_at, null::timestamptz as due_at, lock_owner::bigint as owner,
           claimed_at, null::timestamptz as dead_at, null::text as reason, payload, body, content_type, headers, errors,
           options, blocked_on
    from {schema}.job
    union all
    select id, seq, 'external', kind, queue, -greatest(rank, (-32767)::int2), attempt, max_attempts, version, created_at, null, null, null,
           null, null, payload, body, content_type, headers, errors, options, null
    from {schema}.external_job
    union all
    select id, seq, 'timer', kind, queue, -greatest(rank, (-32767)::int2), attempt, max_attempts, version, created_at, due_at, null, null,
           null, null, payload, body, content_type, headers, errors, options, null
    from {schema}.timer_job
    union all
    select id, seq, 'suspended', kind, queue, -greatest(rank, (-32767)::int2), attempt, max_attempts, version, created_at, due_at, null, null,
           null, null, payload, body, content_type, headers, errors, options, null
    from {schema}.suspended_job
    union all
    select id, seq, 'dead', kind, queue, -greatest(rank, (-32767)::int2), attempt, max_attempts, version, created_at, null, null, null,
           dead_at, reason, payload, body, content_type, headers, errors, options, null
    from {schema}.dead_letter_job;
