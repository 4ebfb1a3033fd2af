-- Repeating jobs: when, and what to send. When the next occurrence is, is computed by the nodes, and written with the jobs of
-- the last one in one transaction.
create table {schema}.schedule (
    name         text primary key,
    version      bigint not null default 0,
    schedule     text not null,
    zone         text not null,
    misfire      text not null,
    overlap      text not null,
    until_at     timestamptz,
    times        bigint,
    anchor_at    timestamptz not null,
    paused       boolean not null default false,
    next_at      timestamptz,
    last_at      timestamptz,
    last_job     uuid,
    fired        bigint not null default 0,
    created_at   timestamptz not null default clock_timestamp(),
    kind         text not null,
    queue        text not null,
    priority     smallint not null,
    max_attempts integer not null,
    payload      jsonb,
    body         bytea,
    content_type text,
    headers      jsonb,
    terms        jsonb,
    constraint schedule_has_one_content check ((payload is null) <> (body is null))
);

comment on column {schema}.schedule.version is 'raised by each change, named by each change';
comment on column {schema}.schedule.anchor_at is 'intervals without a start of their own count from here';
comment on column {schema}.schedule.next_at is 'the next occurrence, by the clock of this server; null = there is none any more';
comment on column {schema}.schedule.fired is 'occurrences that sent a job';

create index schedule_due on {schema}.schedule (next_at) where not paused and next_at is not null;
