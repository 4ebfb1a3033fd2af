-- Who steered what, and what it takes to list jobs page by page.

-- One row for each action of an operator, written in the transaction of what it did. Nothing removes rows but the owner.
create table {schema}.audit (
    id     bigint generated always as identity primary key,
    at     timestamptz not null default clock_timestamp(),
    who    text not null,
    action text not null,
    what   jsonb not null,
    counts jsonb not null default '{}'
);

comment on column {schema}.audit.what is 'what the action was about: a filter and a change, a rule, or a node';
comment on column {schema}.audit.counts is 'how many jobs it touched, by the state they were in';

-- Pages of listings. `job` has none: it would cost every job that is sent, and its pages are found lane by lane (see list.sql).
create index blocked_job_seq on {schema}.blocked_job (seq);
create index external_job_seq on {schema}.external_job (seq);
create index timer_job_seq on {schema}.timer_job (seq);
create index suspended_job_seq on {schema}.suspended_job (seq);
create index dead_letter_job_seq on {schema}.dead_letter_job (seq);
