-- What decides whether a job may start beside others: its terms, the rules of the installation, the slots that jobs hold, and
-- the gates at which they wait. docs/adr/0026-gates.md says why it is shaped so.

-- Null for a plain job, which pays for none of this.
alter table {schema}.job add column terms jsonb, add column admitted boolean not null default false;
alter table {schema}.external_job add column terms jsonb, add column admitted boolean not null default false;
alter table {schema}.timer_job add column terms jsonb;
alter table {schema}.suspended_job add column terms jsonb;
alter table {schema}.dead_letter_job add column terms jsonb;

comment on column {schema}.job.terms is 'group, ordered, tenant, limit, ttl, expires (microseconds since 1970), retry, unique; null = none';
comment on column {schema}.job.admitted is 'holds what it needs to start; it keeps that until the row is gone, whoever owns it';

-- Jobs that may not start yet, because their group or a limit is taken. Here and not in `job`: however many there are, no
-- claim walks over them.
create table {schema}.blocked_job (
    seq          bigint not null,
    version      bigint not null,
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
    errors       jsonb,
    terms        jsonb,
    admitted     boolean not null default false,
    gate         text not null,
    share        text not null default ''
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

comment on column {schema}.blocked_job.admitted is 'the first of its group: it holds the group while it waits for a limit';
comment on column {schema}.blocked_job.gate is 'the key it waits for: a group (g:), or a limit by queue (q:), kind (k:), tenant (t:) or limit key (l:)';
comment on column {schema}.blocked_job.share is 'whose share of that gate it takes: a tenant or a kind, where the rule has shares';

create unique index blocked_job_id on {schema}.blocked_job (id);
-- The best behind a gate: read from the front, however many there are.
create index blocked_job_gate on {schema}.blocked_job (gate, share, rank, seq);

-- What the installation asks of its jobs. A name '*' means: each one that has no rule of its own.
create table {schema}.rule (
    scope      text not null check (scope in ('queue', 'kind', 'tenant', 'key', 'group')),
    name       text not null,
    paused     boolean not null default false,
    running    integer check (running >= 0),
    rate       integer check (rate >= 1),
    period     bigint check (period >= 1000),
    aging      bigint check (aging >= 1000000),
    depth      bigint check (depth >= 0),
    shares     jsonb,
    changed_at timestamptz not null default clock_timestamp(),
    primary key (scope, name),
    check ((rate is null) = (period is null))
);

comment on column {schema}.rule.running is 'how many may run at the same time, over all nodes';
comment on column {schema}.rule.rate is 'how many may start within any period of that many microseconds';
comment on column {schema}.rule.aging is 'after each so many microseconds of waiting, a job of this queue counts as one priority higher';
comment on column {schema}.rule.depth is 'how many jobs may wait in this queue before senders are told that it is full';

-- What a rule of a scope is about, in a job. Plain enough to become part of the statements that ask.
create function {schema}.subject(scope text, queue text, kind text, terms jsonb) returns text
language sql immutable
as $subject$
    select case scope when 'queue' then queue when 'kind' then kind when 'tenant' then terms ->> 'tenant'
                      when 'key' then terms ->> 'limit' else terms ->> 'group' end
$subject$;

-- Who holds what: a group (g:), or a place under a limit (q:, k:, t:, l:).
create table {schema}.slot (
    job_id uuid not null,
    key    text not null,
    primary key (job_id, key)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

create index slot_key on {schema}.slot (key);

-- Gates that opened, or will: a slot was freed, a job came, a rule changed, a rate allows more. n: how many to look at behind it.
create table {schema}.opening (
    key      text not null,
    opens_at timestamptz not null default clock_timestamp(),
    n        integer not null default 1
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

-- How many were admitted under a rate, and when: as much of it as the longest period needs.
create table {schema}.rate_log (
    key text not null,
    at  timestamptz not null default clock_timestamp(),
    n   integer not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

create index rate_log_key on {schema}.rate_log (key, at);

-- One row. Whoever admits locks it: what is decided by counting can't be decided twice at a time.
create table {schema}.admission (one boolean primary key default true check (one));
insert into {schema}.admission default values;

-- A job of a group waits for admission however it came here: sent, promoted, released, requeued, or by somebody's own SQL.
create function {schema}.block_job() returns trigger
language plpgsql
-- With its owner's rights: whoever may send a job need not be able to write into the engine's tables.
security definer
set search_path = pg_catalog, pg_temp
as $block$
begin
    insert into {schema}.blocked_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                                      payload, body, content_type, headers, errors, terms, gate)
    values (new.seq, new.version, new.created_at, new.id, new.attempt, new.max_attempts, new.rank, new.kind, new.queue,
            new.payload, new.body, new.content_type, new.headers, new.errors, new.terms, 'g:' || (new.terms ->> 'group'))
    on conflict (id) do nothing;
    insert into {schema}.opening (key) values ('g:' || (new.terms ->> 'group'));
    return null;
end
$block$;

create trigger job_block before insert on {schema}.job for each row
    when (new.terms is not null and not new.admitted and new.terms ? 'group')
    execute function {schema}.block_job();

-- Frees what a job held when its row is gone, whatever removed it. A job that was only moved on keeps it: handed out, taken
-- back, admitted. An ordered job keeps its group as long as there is any row of it.
create function {schema}.free_slots() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $free$
declare
    kept text;
begin
    if exists (select from {schema}.job where id = old.id and admitted)
        or exists (select from {schema}.external_job where id = old.id and admitted)
        or exists (select from {schema}.blocked_job where id = old.id and admitted) then
        return null;
    end if;
    if old.terms ? 'ordered' and (exists (select from {schema}.timer_job where id = old.id)
                                  or exists (select from {schema}.dead_letter_job where id = old.id)
                                  or exists (select from {schema}.suspended_job where id = old.id)
                                  or exists (select from {schema}.blocked_job where id = old.id)) then
        kept := 'g:' || (old.terms ->> 'group');
    end if;
    with freed as (
        delete from {schema}.slot where job_id = old.id and key is distinct from kept returning key
    )
    insert into {schema}.opening (key) select key from freed;
    return null;
end
$free$;

create trigger job_free after delete on {schema}.job for each row
    when (old.admitted) execute function {schema}.free_slots();
create trigger external_job_free after delete on {schema}.external_job for each row
    when (old.admitted) execute function {schema}.free_slots();
create trigger blocked_job_free after delete on {schema}.blocked_job for each row
    when (old.admitted or old.terms ? 'ordered') execute function {schema}.free_slots();
create trigger timer_job_free after delete on {schema}.timer_job for each row
    when (old.terms ? 'ordered') execute function {schema}.free_slots();
create trigger suspended_job_free after delete on {schema}.suspended_job for each row
    when (old.terms ? 'ordered') execute function {schema}.free_slots();
create trigger dead_letter_job_free after delete on {schema}.dead_letter_job for each row
    when (old.terms ? 'ordered') execute function {schema}.free_slots();

-- What expires, found by when. No claim changes these columns, so claims stay HOT.
create index job_expires on {schema}.job (((terms ->> 'expires')::int8)) where terms ? 'expires';
create index blocked_job_expires on {schema}.blocked_job (((terms ->> 'expires')::int8)) where terms ? 'expires';
create index timer_job_expires on {schema}.timer_job (((terms ->> 'expires')::int8)) where terms ? 'expires';

create or replace view {schema}.jobs as
    select id, seq, case when lock_owner is null then 'waiting' else 'running' end as state, kind, queue, -rank as priority,
           attempt, max_attempts, version, created_at, null::timestamptz as due_at, lock_owner::bigint as owner, claimed_at,
           null::timestamptz as dead_at, null::text as reason, payload, body, content_type, headers, errors,
           terms, null::text as gate
    from {schema}.job
    union all
    select id, seq, 'blocked', kind, queue, -rank, attempt, max_attempts, version, created_at, null, null, null,
           null, null, payload, body, content_type, headers, errors, terms, gate
    from {schema}.blocked_job
    union all
    select id, seq, 'external', kind, queue, -rank, attempt, max_attempts, version, created_at, null, null, null,
           null, null, payload, body, content_type, headers, errors, terms, null
    from {schema}.external_job
    union all
    select id, seq, 'timer', kind, queue, -rank, attempt, max_attempts, version, created_at, due_at, null, null,
           null, null, payload, body, content_type, headers, errors, terms, null
    from {schema}.timer_job
    union all
    select id, seq, 'suspended', kind, queue, -rank, attempt, max_attempts, version, created_at, due_at, null, null,
           null, null, payload, body, content_type, headers, errors, terms, null
    from {schema}.suspended_job
    union all
    select id, seq, 'dead', kind, queue, -rank, attempt, max_attempts, version, created_at, null, null, null,
           dead_at, reason, payload, body, content_type, headers, errors, terms, null
    from {schema}.dead_letter_job;

-- Tells executors at once that there is work, and that something may wait for admission.
create or replace function {schema}.wake(queue text default 'default') returns void
language sql
as $wake$ select pg_notify('{channel}', hint) from unnest(array['q' || queue, 'g']) as hint $wake$;
