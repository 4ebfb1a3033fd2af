-- What is remembered of jobs that ended, their results, and how far running ones have got. All three are empty, and cost
-- nothing, unless they are asked for.

-- One row for each end: of an attempt, or of a job. Only ever appended and pruned. outcome: done; failed, lost (to be tried
-- again); dead, cancelled, deleted. node: 0 = an external worker, null = it did not run.
create table jobwright_history (
    job_id     blob not null check (length(job_id) = 16),
    seq        integer not null,
    kind       text not null,
    queue      text not null,
    outcome    text not null,
    attempt    integer not null,
    created_at integer not null,
    started_at integer,
    ended_at   integer not null,
    node       integer,
    tenant     text,
    error      text
) strict;

-- The order of listings, and of pruning.
create index jobwright_history_ended on jobwright_history (ended_at, seq);
create index jobwright_history_job on jobwright_history (job_id);

-- What a handler returned, committed with the end of its job.
create table jobwright_result (
    job_id     blob primary key check (length(job_id) = 16),
    kind       text not null,
    payload    text not null,
    created_at integer not null,
    expires_at integer not null
) strict, without rowid;

create index jobwright_result_expires on jobwright_result (expires_at);

-- How far a job has got, and what its next attempt goes on from. Written while it runs, outside of its handler's transaction.
create table jobwright_progress (
    job_id     blob primary key check (length(job_id) = 16),
    percent    integer check (percent between 0 and 100),
    note       text,
    checkpoint text,
    at         integer not null
) strict;
