-- The job tables, as in PostgreSQL: one table a state, so that the query that acquires jobs stays trivial, and what waits for
-- months (timers, dead letters) is never in its way. A job keeps id, seq and version while it moves between them.
--
-- They live in the user's own file, hence the prefix. Moments are whole microseconds since 1970, UTC; ids are the 16 bytes
-- of a UUID (jobwright_jobs shows them as text); headers and errors are JSON.

-- The last number given out of a job: its order of sending, since no clock decides order.
create table jobwright_sequence (
    name  text primary key,
    value integer not null
) strict, without rowid;

insert into jobwright_sequence (name, value) values ('job', 0);

-- Executors. A row is one incarnation: each start draws a new id at random, so a reused name never revives old ownership.
create table jobwright_node (
    id         integer primary key,
    name       text not null,
    host       text not null,
    pid        integer not null,
    lease      integer not null check (lease >= 1000000),
    started_at integer not null,
    expires_at integer not null,
    dead_at    integer
) strict;

-- Jobs that are waiting (lock_owner is null) or owned.
create table jobwright_job (
    seq          integer primary key,
    version      integer not null default 0,
    lock_owner   integer,
    claimed_at   integer,
    created_at   integer not null,
    id           blob not null check (length(id) = 16),
    attempt      integer not null default 0,
    max_attempts integer not null,
    rank         integer not null,
    kind         text not null,
    queue        text not null,
    payload      text,
    body         blob,
    content_type text,
    headers      text,
    errors       text,
    check ((payload is null) <> (body is null))
) strict;

create unique index jobwright_job_id on jobwright_job (id);
-- PostgreSQL must not index what a claim changes; here an index entry dies either at the claim or at the end of the job, at
-- the same cost, and a scan that never meets owned rows is worth having. kind is in it so that jobs of other kinds are
-- skipped without reading their rows; so is lock_owner, always null there: without it SQLite reads the row to test it again.
create index jobwright_job_acquire on jobwright_job (queue, rank, seq, kind, lock_owner) where lock_owner is null;
create index jobwright_job_owned on jobwright_job (lock_owner) where lock_owner is not null;

-- Jobs that are due later: delayed, snoozed, or between two attempts.
create table jobwright_timer_job (
    seq          integer primary key,
    version      integer not null default 0,
    due_at       integer not null,
    created_at   integer not null,
    id           blob not null check (length(id) = 16),
    attempt      integer not null default 0,
    max_attempts integer not null,
    rank         integer not null,
    kind         text not null,
    queue        text not null,
    payload      text,
    body         blob,
    content_type text,
    headers      text,
    errors       text,
    check ((payload is null) <> (body is null))
) strict;

create unique index jobwright_timer_job_id on jobwright_timer_job (id);
create index jobwright_timer_job_due on jobwright_timer_job (due_at);

-- Jobs that an operator has set aside. A timer keeps its due date.
create table jobwright_suspended_job (
    seq          integer primary key,
    version      integer not null,
    due_at       integer,
    suspended_at integer not null,
    created_at   integer not null,
    id           blob not null check (length(id) = 16),
    attempt      integer not null,
    max_attempts integer not null,
    rank         integer not null,
    kind         text not null,
    queue        text not null,
    payload      text,
    body         blob,
    content_type text,
    headers      text,
    errors       text
) strict;

create unique index jobwright_suspended_job_id on jobwright_suspended_job (id);

-- Jobs that ended in failure and wait for a person.
create table jobwright_dead_letter_job (
    seq          integer primary key,
    version      integer not null,
    dead_at      integer not null,
    created_at   integer not null,
    id           blob not null check (length(id) = 16),
    attempt      integer not null,
    max_attempts integer not null,
    rank         integer not null,
    kind         text not null,
    queue        text not null,
    reason       text not null,
    payload      text,
    body         blob,
    content_type text,
    headers      text,
    errors       text
) strict;

create unique index jobwright_dead_letter_job_id on jobwright_dead_letter_job (id);
create index jobwright_dead_letter_job_queue on jobwright_dead_letter_job (queue, kind);

-- All jobs in one place, for people and reports: ids and moments as text.
create view jobwright_jobs as
    with every as (
        select id, seq, case when lock_owner is null then 'waiting' else 'running' end as state, kind, queue, rank,
               attempt, max_attempts, version, created_at, null as due_at, lock_owner as owner, claimed_at,
               null as dead_at, null as reason, payload, body, content_type, headers, errors
        from jobwright_job
        union all
        select id, seq, 'timer', kind, queue, rank, attempt, max_attempts, version, created_at, due_at, null, null,
               null, null, payload, body, content_type, headers, errors
        from jobwright_timer_job
        union all
        select id, seq, 'suspended', kind, queue, rank, attempt, max_attempts, version, created_at, due_at, null, null,
               null, null, payload, body, content_type, headers, errors
        from jobwright_suspended_job
        union all
        select id, seq, 'dead', kind, queue, rank, attempt, max_attempts, version, created_at, null, null, null,
               dead_at, reason, payload, body, content_type, headers, errors
        from jobwright_dead_letter_job
    )
    select lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4) || '-'
                 || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)) as id,
           seq, state, kind, queue, -rank as priority, attempt, max_attempts, version,
           strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1e6, 'unixepoch') as created_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', due_at / 1e6, 'unixepoch') as due_at,
           owner,
           strftime('%Y-%m-%dT%H:%M:%fZ', claimed_at / 1e6, 'unixepoch') as claimed_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', dead_at / 1e6, 'unixepoch') as dead_at,
           reason, payload, body, content_type, headers, errors
    from every;
