-- What a broker needs: rows with a head start for their delivery, jobs in the hands of external workers, and the memory of
-- what foreign producers submitted.

-- A waiting row may be held for its delivery. No index covers this column either: claims stay HOT.
alter table {schema}.job add column held_until timestamptz;

comment on column {schema}.job.held_until is 'until then claims of the table leave it to its delivery; null once it was claimed';

alter table {schema}.node add column broker text;

comment on column {schema}.node.broker is 'how the node stands with the broker; null = it has none';

-- Jobs in the hands of external workers. Nobody's heartbeat answers for them, so each has a lease of its own.
create table {schema}.external_job (
    seq          bigint not null,
    version      bigint not null,
    lease_until  timestamptz not null,
    lease        interval not null,
    handed_at    timestamptz not null default clock_timestamp(),
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
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

comment on table {schema}.external_job is 'handed out through the broker; version is the token its report must name';
comment on column {schema}.external_job.lease_until is 'then it waits again, by the clock of this server';
comment on column {schema}.external_job.lease is 'as handed out';

create unique index external_job_id on {schema}.external_job (id);
create index external_job_lease on {schema}.external_job (lease_until);

-- What foreign producers submitted, for as long as they may send it again.
create table {schema}.submission (
    id          uuid primary key,
    digest      bytea not null,
    received_at timestamptz not null default clock_timestamp()
);

comment on column {schema}.submission.digest is 'SHA-256 of the message: tells a repeated one from another under the same id';

create index submission_received on {schema}.submission (received_at);

create or replace view {schema}.jobs as
    select id, seq, case when lock_owner is null then 'waiting' else 'running' end as state, kind, queue, -rank as priority,
           attempt, max_attempts, version, created_at, null::timestamptz as due_at, lock_owner::bigint as owner, claimed_at,
           null::timestamptz as dead_at, null::text as reason, payload, body, content_type, headers, errors
    from {schema}.job
    union all
    select id, seq, 'external', kind, queue, -rank, attempt, max_attempts, version, created_at, null, null, null,
           null, null, payload, body, content_type, headers, errors
    from {schema}.external_job
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
