-- What is remembered of jobs that ended, their results, and how far running ones have got. All three are empty, and cost
-- nothing, unless they are asked for.

-- One row for each end: of an attempt, or of a job. Only ever appended and pruned, so none is ever updated.
create table {schema}.history (
    job_id     uuid not null,
    seq        bigint not null,
    kind       text not null,
    queue      text not null,
    outcome    text not null,
    attempt    integer not null,
    created_at timestamptz not null,
    started_at timestamptz,
    ended_at   timestamptz not null default clock_timestamp(),
    node       bigint,
    tenant     text,
    error      text
) with (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);

comment on column {schema}.history.outcome is 'done; failed, lost (to be tried again); dead, cancelled, deleted';
comment on column {schema}.history.node is 'who ran it; 0 = an external worker, null = it did not run';

-- The order of listings, and of pruning.
create index history_ended on {schema}.history (ended_at, seq);
create index history_job on {schema}.history (job_id);

-- What a handler returned, committed with the end of its job.
create table {schema}.result (
    job_id     uuid primary key,
    kind       text not null,
    payload    jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null
);

create index result_expires on {schema}.result (expires_at);

-- How far a job has got, and what its next attempt goes on from. Written while it runs, outside of its handler's transaction.
create table {schema}.progress (
    job_id     uuid primary key,
    percent    smallint check (percent between 0 and 100),
    note       text,
    checkpoint jsonb,
    at         timestamptz not null default clock_timestamp()
) with (fillfactor = 70);
