-- The job tables. One table a state, so that the query that acquires jobs stays trivial, and what waits for months (timers,
-- dead letters) is never in its way. A job keeps id, seq and version while it moves between them.

-- Order of sending. Taken when a job is flushed; no node's clock decides order.
create sequence {schema}.job_seq as bigint;

-- Executors. A row is one incarnation: each start draws a new id at random, so a reused name never revives old ownership, and a server that
-- forgot the last ones does not give them out again.
create table {schema}.node (
    id         bigint primary key check (id between 1 and 2147483647),
    name       text not null,
    host       text not null,
    pid        bigint not null,
    lease      interval not null check (lease >= interval '1 second'),
    started_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null,
    dead_at    timestamptz
) with (fillfactor = 50);

comment on column {schema}.node.expires_at is 'end of the lease, by the clock of this server';
comment on column {schema}.node.dead_at is 'declared dead: never revived, its jobs are being released';

-- Jobs that are waiting (lock_owner is null) or owned.
-- The claim changes version, attempt, lock_owner and claimed_at. No index may ever cover one of them, not even as a
-- predicate: then the update stays within its page (HOT), which was measured at 1.5 times the rate and half the WAL of a
-- partial index on "unlocked". The fillfactor leaves the room that takes.
-- The four stand side by side and begin at a multiple of eight, because the server logs of an update what lies between the first and
-- the last byte that changed; that order alone saves 24 of the 192 bytes of WAL of a claim. For the same reason owner and token have 32
-- bits, which saves 8 more. Both are made by who claims (src/job/token.rs): 62 bits that the database does not have to remember.
create table {schema}.job (
    seq          bigint not null default nextval('{schema}.job_seq'),
    created_at   timestamptz not null default clock_timestamp(),
    id           uuid not null,
    attempt      integer not null default 0,
    lock_owner   integer,
    claimed_at   timestamptz,
    version      integer not null default 0,
    max_attempts integer not null,
    rank         smallint not null,
    kind         text not null,
    queue        text not null,
    payload      jsonb,
    body         bytea,
    content_type text,
    headers      jsonb,
    errors       jsonb,
    constraint job_has_one_content check ((payload is null) <> (body is null))
) with (
    fillfactor = 45,
    -- A queue turns over its whole content again and again: clean up by what died, not by a share of what is there.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 5000,
    -- Giving pages back to the system takes an exclusive lock that would stop every claim.
    vacuum_truncate = off
);

comment on column {schema}.job.rank is '-priority, so that (rank, seq) ascending is the order of acquisition';
comment on column {schema}.job.version is 'number of the last claim among those of its owner; with the owner the fencing token that each outcome names; 0 = never claimed';
comment on column {schema}.job.attempt is 'raised by each claim, so that an attempt that kills its process counts too';

-- Both grow at their ends, and a full page of an index is logged anew to where it is split: what stays free is written twice.
-- 97 and not 90 saves 4 bytes of WAL for a job and a tenth of the size; 99 costs more than it saves as soon as eight send at once.
create unique index job_id on {schema}.job (id) with (fillfactor = 97);
create index job_acquire on {schema}.job (queue, rank, seq) with (fillfactor = 97);

-- Jobs that are due later: delayed, snoozed, or between two attempts.
create table {schema}.timer_job (
    seq          bigint not null default nextval('{schema}.job_seq'),
    version      bigint not null default 0,
    due_at       timestamptz not null,
    created_at   timestamptz not null default clock_timestamp(),
    id           uuid not null,
    attempt      integer not null default 0,
    max_attempts integer not null,
    rank         smallint not null,
    kind         text not null,
    queue        text not null,
    payload      jsonb,
    body         bytea,
    content_type text,
    headers      jsonb,
    errors       jsonb,
    constraint timer_job_has_one_content check ((payload is null) <> (body is null))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

create unique index timer_job_id on {schema}.timer_job (id);
create index timer_job_due on {schema}.timer_job (due_at);

-- Jobs that an operator has set aside. A timer keeps its due date.
create table {schema}.suspended_job (
    seq          bigint not null,
    version      bigint not null,
    due_at       timestamptz,
    suspended_at timestamptz not null default clock_timestamp(),
    created_at   timestamptz not null,
    id           uuid not null,
    attempt      integer not null,
    max_attempts integer not null,
    rank         smallint not null,
    kind         text not null,
    queue        text not null,
    payload      jsonb,
    body         bytea,
    content_type text,
    headers      jsonb,
    errors       jsonb
);

create unique index suspended_job_id on {schema}.suspended_job (id);

-- Jobs that ended in failure and wait for a person.
create table {schema}.dead_letter_job (
    seq          bigint not null,
    version      bigint not null,
    dead_at      timestamptz not null default clock_timestamp(),
    created_at   timestamptz not null,
    id           uuid not null,
    attempt      integer not null,
    max_attempts integer not null,
    rank         smallint not null,
    kind         text not null,
    queue        text not null,
    reason       text not null,
    payload      jsonb,
    body         bytea,
    content_type text,
    headers      jsonb,
    errors       jsonb
);

create unique index dead_letter_job_id on {schema}.dead_letter_job (id);
create index dead_letter_job_queue on {schema}.dead_letter_job (queue, kind);

-- All jobs in one place, for people and reports.
create view {schema}.jobs as
    select id, seq, case when lock_owner is null then 'waiting' else 'running' end as state, kind, queue, -rank as priority,
           attempt, max_attempts, version, created_at, null::timestamptz as due_at, lock_owner::bigint as owner, claimed_at,
           null::timestamptz as dead_at, null::text as reason, payload, body, content_type, headers, errors
    from {schema}.job
    union all
    select id, seq, 'timer', kind, queue, -rank, attempt, max_attempts, version, created_at, due_at, null, null,
           null, null, payload, body, content_type, headers, errors
    from {schema}.timer_job
    union all
    select id, seq, 'suspended', kind, queue, -rank, attempt, max_attempts, version, created_at, due_at, null, null,
           null, null, payload, body, content_type, headers, errors
    from {schema}.suspended_job
    union all
    select id, seq, 'dead', kind, queue, -rank, attempt, max_attempts, version, created_at, null, null, null,
           dead_at, reason, payload, body, content_type, headers, errors
    from {schema}.dead_letter_job;

-- Sends a job from plain SQL, in the caller's transaction: a trigger, psql, any language.
-- It sends no NOTIFY (that would serialise the commits of the whole database): executors find the job at their next poll,
-- or at once if the caller runs wake() after its commit.
create function {schema}.send(
    kind            text,
    payload         jsonb,
    queue           text default 'default',
    priority        integer default 0,
    due_at          timestamptz default now(),
    exclusive_group text default null,
    unique_key      text default null,
    max_attempts    integer default null,
    headers         jsonb default '{}'
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
    -- Refused rather than ignored: a job that silently lost its group or key would run beside what it must not.
    if exclusive_group is not null or unique_key is not null then
        raise exception 'jobwright.send: exclusive_group and unique_key are not supported by this version of the schema'
            using errcode = 'feature_not_supported';
    end if;

    if due_at <= moment then
        insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, headers, created_at)
        values (job_id, send.kind, send.queue, -send.priority, attempts, send.payload, nullif(send.headers, '{}'), moment);
    else
        insert into {schema}.timer_job (id, kind, queue, rank, max_attempts, payload, headers, created_at, due_at)
        values (job_id, send.kind, send.queue, -send.priority, attempts, send.payload, nullif(send.headers, '{}'), moment, send.due_at);
    end if;
    return job_id;
end
$send$;

comment on function {schema}.send is 'sends a job in the caller''s transaction and returns its id';

-- Tells executors at once that there is work. Run it after the commit, in a transaction of its own.
create function {schema}.wake(queue text default 'default') returns void
language sql
as $wake$ select pg_notify('{channel}', 'q' || queue) $wake$;

comment on function {schema}.wake is 'tells executors that a queue has work; call it after the commit';
