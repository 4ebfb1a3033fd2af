-- Sending from plain SQL, as before, with a time to live, a tenant and a limit key. In place of the function before it: beside that one, each
-- call would fit both. The new arguments come last, so calls by position stay what they were. Rights on the function itself, where
-- somebody changed them, have to be granted again.
drop function {schema}.send(text, jsonb, text, integer, timestamptz, text, text, integer, jsonb);

create function {schema}.send(
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
    -- Microseconds, as the library counts them: a month has 30 days. What is out of range is refused below.
    lives constant int8 := case when ttl is not null then extract(epoch from least(greatest(ttl, interval '0'), interval '101 years')) * 1000000 end;
    -- What is not asked for is left out; a plain job has none at all.
    job_terms jsonb := nullif(jsonb_strip_nulls(jsonb_build_object(
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
    if headers is null or jsonb_typeof(headers) <> 'object'
        or exists (select from jsonb_each(headers) h where jsonb_typeof(h.value) <> 'string') then
        raise exception 'jobwright.send: headers must be a JSON object whose values are strings'
            using errcode = 'invalid_parameter_value';
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
        -- As the library makes it, so that both keep each other's jobs out.
        select sha256(string_agg(int8send(octet_length(part)::int8) || part, ''::bytea order by n)) into digest
        from unnest(array[convert_to('jobwright unique 1', 'UTF8'), convert_to('key', 'UTF8'), convert_to(send.kind, 'UTF8'), ''::bytea,
                          convert_to(unique_key, 'UTF8')]) with ordinality as parts(part, n);
        select t.holder into holder
        from {schema}.take_unique(array[digest], array[job_id], array['done'], array[null::int8], array['keep']) t
        where t.verdict = 'kept';
        if found then
            return holder;
        end if;
        job_terms := coalesce(job_terms, '{}') || jsonb_build_object('unique',
            jsonb_build_object('key', encode(digest, 'hex'), 'hold', 'done', 'conflict', 'keep'));
    end if;

    if due_at <= moment then
        insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, headers, created_at, terms)
        values (job_id, send.kind, send.queue, -send.priority, attempts, send.payload, nullif(send.headers, '{}'), moment, job_terms);
    else
        insert into {schema}.timer_job (id, kind, queue, rank, max_attempts, payload, headers, created_at, terms, due_at)
        values (job_id, send.kind, send.queue, -send.priority, attempts, send.payload, nullif(send.headers, '{}'), moment, job_terms, send.due_at);
    end if;
    return job_id;
end
$send$;

comment on function {schema}.send is 'sends a job in the caller''s transaction and returns its id';
comment on column {schema}.history.outcome is 'done; failed, lost (to be tried again); dead, expired, cancelled, deleted';

-- As before, but a key that a suspended job holds while it waits is kept: asking again found it again, for ever.
create or replace function {schema}.try_unique(keys bytea[], ids uuid[], holds text[], periods int8[], conflicts text[])
returns table (n integer, verdict text, holder uuid)
language plpgsql
set search_path = pg_catalog, pg_temp
as $try$
#variable_conflict use_column
declare
    ask record;
    held record;
    is_held boolean;
begin
    for ask in
        select u.key, u.id, u.hold, clock_timestamp() + u.period * interval '1 microsecond' as until, u.conflict, u.n::int as n
        from unnest(keys, ids, holds, periods, conflicts) with ordinality as u(key, id, hold, period, conflict, n)
        order by u.key
    loop
        loop
            insert into {schema}.unique_key as k (key, job_id, hold, expires_at) values (ask.key, ask.id, ask.hold, ask.until)
            on conflict (key) do nothing;
            if found then
                return query select ask.n, 'free'::text, ask.id;
                exit;
            end if;
            select k.job_id, k.hold, k.expires_at,
                   exists (select from {schema}.job t where t.id = k.job_id and t.lock_owner is null)
                   or exists (select from {schema}.blocked_job t where t.id = k.job_id)
                   or exists (select from {schema}.timer_job t where t.id = k.job_id)
                   or exists (select from {schema}.suspended_job t where t.id = k.job_id) as waits,
                   exists (select from {schema}.job t where t.id = k.job_id)
                   or exists (select from {schema}.external_job t where t.id = k.job_id)
                   or exists (select from {schema}.dead_letter_job t where t.id = k.job_id) as goes_on
            into held
            from {schema}.unique_key k where k.key = ask.key;
            -- Gone in between: ask again.
            continue when not found;
            is_held := case held.hold when 'period' then held.expires_at > clock_timestamp()
                                      when 'waiting' then held.waits
                                      else held.waits or held.goes_on end;
            if not is_held then
                update {schema}.unique_key k set job_id = ask.id, hold = ask.hold, expires_at = ask.until
                where k.key = ask.key and k.job_id = held.job_id and k.expires_at is not distinct from held.expires_at;
                -- Another one was faster: ask again.
                continue when not found;
                return query select ask.n, 'free'::text, ask.id;
                exit;
            end if;
            if ask.conflict = 'reject' and held.job_id <> ask.id then
                raise exception 'unique' using errcode = 'JWUNQ', detail = held.job_id::text, hint = ask.n::text;
            end if;
            if ask.conflict = 'replace' and held.waits and held.job_id <> ask.id then
                perform from {schema}.unique_key k where k.key = ask.key and k.job_id = held.job_id for update;
                continue when not found;
                delete from {schema}.job t where t.id = held.job_id and t.lock_owner is null;
                if not found then
                    delete from {schema}.blocked_job t where t.id = held.job_id;
                end if;
                if not found then
                    delete from {schema}.timer_job t where t.id = held.job_id;
                end if;
                if found then
                    insert into {schema}.unique_key as k (key, job_id, hold, expires_at) values (ask.key, ask.id, ask.hold, ask.until)
                    on conflict (key) do update set job_id = excluded.job_id, hold = excluded.hold, expires_at = excluded.expires_at;
                    return query select ask.n, 'replaced'::text, held.job_id;
                    exit;
                end if;
                -- It was just taken. What holds only while it waits is free now: ask again. One that is set aside waits on, and is kept.
                continue when held.hold = 'waiting'
                    and not exists (select from {schema}.suspended_job t where t.id = held.job_id);
            end if;
            return query select ask.n, 'kept'::text, held.job_id;
            exit;
        end loop;
    end loop;
end
$try$;
