-- What a broker needs: rows with a head start for their delivery, jobs in the hands of external workers, and the memory of
-- what foreign producers submitted.

-- A waiting row may be held for its delivery: until then claims of the table leave it alone.
alter table jobwright_job add column held_until integer;

-- held_until is in the index of waiting rows, so that a look into a queue still reads nothing but the index.
drop index jobwright_job_acquire;
create index jobwright_job_acquire on jobwright_job (queue, rank, seq, kind, lock_owner, held_until) where lock_owner is null;

-- How a node stands with the broker; null = it has none.
alter table jobwright_node add column broker text;

-- Jobs in the hands of external workers. Nobody's heartbeat answers for them, so each has a lease of its own.
create table jobwright_external_job (
    seq          integer primary key,
    version      integer not null,
    lease_until  integer not null,
    lease        integer not null,
    handed_at    integer not null,
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

create unique index jobwright_external_job_id on jobwright_external_job (id);
create index jobwright_external_job_lease on jobwright_external_job (lease_until);

-- What foreign producers submitted, for as long as they may send it again. digest: SHA-256 of the message.
create table jobwright_submission (
    id          blob primary key check (length(id) = 16),
    digest      blob not null,
    received_at integer not null
) strict, without rowid;

create index jobwright_submission_received on jobwright_submission (received_at);

drop view jobwright_jobs;
create view jobwright_jobs as
    with every as (
        select id, seq, case when lock_owner is null then 'waiting' else 'running' end as state, kind, queue, rank,
               attempt, max_attempts, version, created_at, null as due_at, lock_owner as owner, claimed_at,
               null as dead_at, null as reason, payload, body, content_type, headers, errors
        from jobwright_job
        union all
        select id, seq, 'external', kind, queue, rank, attempt, max_attempts, version, created_at, null, null, null,
               null, null, payload, body, content_type, headers, errors
        from jobwright_external_job
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
