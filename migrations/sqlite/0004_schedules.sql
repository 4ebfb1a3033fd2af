-- Repeating jobs, as in PostgreSQL: when, and what to send.
create table jobwright_schedule (
    name         text primary key,
    version      integer not null default 0,
    schedule     text not null,
    zone         text not null,
    misfire      text not null,
    overlap      text not null,
    until_at     integer,
    times        integer,
    anchor_at    integer not null,
    paused       integer not null default 0,
    next_at      integer,
    last_at      integer,
    last_job     blob,
    fired        integer not null default 0,
    created_at   integer not null,
    kind         text not null,
    queue        text not null,
    priority     integer not null,
    max_attempts integer not null,
    payload      text,
    body         blob,
    content_type text,
    headers      text,
    terms        text,
    check ((payload is null) <> (body is null))
) strict, without rowid;

create index jobwright_schedule_due on jobwright_schedule (next_at) where paused = 0 and next_at is not null;
