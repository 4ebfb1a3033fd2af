-- What decides whether a job may start beside others: its terms, the rules of the installation, the slots that jobs hold, and
-- the gates at which they wait. As in PostgreSQL; docs/adr/0026-gates.md says why it is shaped so.

-- Null for a plain job, which pays for none of this: group, ordered, tenant, limit, ttl, expires (microseconds), retry, unique.
alter table jobwright_job add column terms text;
-- Holds what it needs to start; it keeps that until the row is gone, whoever owns it.
alter table jobwright_job add column admitted integer not null default 0;
alter table jobwright_external_job add column terms text;
alter table jobwright_external_job add column admitted integer not null default 0;
alter table jobwright_timer_job add column terms text;
alter table jobwright_suspended_job add column terms text;
alter table jobwright_dead_letter_job add column terms text;

-- Jobs that may not start yet, because their group or a limit is taken. However many there are, no claim walks over them.
-- admitted: the first of its group, which it holds while it waits for a limit. gate: the key it waits for.
-- share: whose share of that gate it takes, where the rule has shares.
create table jobwright_blocked_job (
    seq          integer primary key,
    version      integer not null,
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
    errors       text,
    terms        text,
    admitted     integer not null default 0,
    gate         text not null,
    share        text not null default ''
) strict;

create unique index jobwright_blocked_job_id on jobwright_blocked_job (id);
create index jobwright_blocked_job_gate on jobwright_blocked_job (gate, share, rank, seq);

-- What the installation asks of its jobs. A name '*' means: each one that has no rule of its own. period and aging in microseconds.
create table jobwright_rule (
    scope      text not null check (scope in ('queue', 'kind', 'tenant', 'key', 'group')),
    name       text not null,
    paused     integer not null default 0,
    running    integer check (running >= 0),
    rate       integer check (rate >= 1),
    period     integer check (period >= 1000),
    aging      integer check (aging >= 1000000),
    depth      integer check (depth >= 0),
    shares     text,
    changed_at integer not null,
    primary key (scope, name),
    check ((rate is null) = (period is null))
) strict, without rowid;

-- Who holds what: a group (g:), or a place under a limit (q:, k:, t:, l:).
create table jobwright_slot (
    job_id blob not null,
    key    text not null,
    primary key (job_id, key)
) strict, without rowid;

create index jobwright_slot_key on jobwright_slot (key);

-- Gates that opened (opens_at 0), or will: a slot was freed, a job came, a rule changed, a rate allows more. n: how many to look at
-- behind it.
create table jobwright_opening (
    key      text not null,
    opens_at integer not null default 0,
    n        integer not null default 1
) strict;

create index jobwright_opening_at on jobwright_opening (opens_at, key);

-- How many were admitted under a rate, and when: as much of it as the longest period needs.
create table jobwright_rate_log (
    key text not null,
    at  integer not null,
    n   integer not null
) strict;

create index jobwright_rate_log_key on jobwright_rate_log (key, at);

-- A job of a group waits for admission however it came here. The row itself is then left out.
create trigger jobwright_job_block before insert on jobwright_job
when new.terms is not null and not new.admitted and new.terms ->> 'group' is not null
begin
    insert into jobwright_blocked_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                                       payload, body, content_type, headers, errors, terms, gate)
    values (new.seq, new.version, new.created_at, new.id, new.attempt, new.max_attempts, new.rank, new.kind, new.queue,
            new.payload, new.body, new.content_type, new.headers, new.errors, new.terms, 'g:' || (new.terms ->> 'group'))
    on conflict (id) do nothing;
    insert into jobwright_opening (key) values ('g:' || (new.terms ->> 'group'));
    select raise(ignore);
end;

-- Frees what a job held when its row is gone, whatever removed it. A job that was only moved on keeps it: handed out, taken
-- back, admitted. An ordered job keeps its group as long as there is any row of it.
--
-- What moves a job writes the copy first, so the copy is there when the old row goes.
create trigger jobwright_job_free after delete on jobwright_job
when old.admitted
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_opening (key)
    select key from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

create trigger jobwright_external_job_free after delete on jobwright_external_job
when old.admitted
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_opening (key)
    select key from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

create trigger jobwright_blocked_job_free after delete on jobwright_blocked_job
when (old.admitted or old.terms ->> 'ordered' is not null)
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_opening (key)
    select key from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

create trigger jobwright_timer_job_free after delete on jobwright_timer_job
when old.terms ->> 'ordered' is not null
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_opening (key)
    select key from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

create trigger jobwright_suspended_job_free after delete on jobwright_suspended_job
when old.terms ->> 'ordered' is not null
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_opening (key)
    select key from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

create trigger jobwright_dead_letter_job_free after delete on jobwright_dead_letter_job
when old.terms ->> 'ordered' is not null
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_opening (key)
    select key from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_slot
    where job_id = old.id
      and not (old.terms ->> 'ordered' is not null and key = 'g:' || (old.terms ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

-- What expires, found by when.
create index jobwright_job_expires on jobwright_job (terms ->> 'expires') where terms ->> 'expires' is not null;
create index jobwright_blocked_job_expires on jobwright_blocked_job (terms ->> 'expires') where terms ->> 'expires' is not null;
create index jobwright_timer_job_expires on jobwright_timer_job (terms ->> 'expires') where terms ->> 'expires' is not null;

drop view jobwright_jobs;
create view jobwright_jobs as
    with every as (
        select id, seq, case when lock_owner is null then 'waiting' else 'running' end as state, kind, queue, rank,
               attempt, max_attempts, version, created_at, null as due_at, lock_owner as owner, claimed_at,
               null as dead_at, null as reason, payload, body, content_type, headers, errors, terms, null as gate
        from jobwright_job
        union all
        select id, seq, 'blocked', kind, queue, rank, attempt, max_attempts, version, created_at, null, null, null,
               null, null, payload, body, content_type, headers, errors, terms, gate
        from jobwright_blocked_job
        union all
        select id, seq, 'external', kind, queue, rank, attempt, max_attempts, version, created_at, null, null, null,
               null, null, payload, body, content_type, headers, errors, terms, null
        from jobwright_external_job
        union all
        select id, seq, 'timer', kind, queue, rank, attempt, max_attempts, version, created_at, due_at, null, null,
               null, null, payload, body, content_type, headers, errors, terms, null
        from jobwright_timer_job
        union all
        select id, seq, 'suspended', kind, queue, rank, attempt, max_attempts, version, created_at, due_at, null, null,
               null, null, payload, body, content_type, headers, errors, terms, null
        from jobwright_suspended_job
        union all
        select id, seq, 'dead', kind, queue, rank, attempt, max_attempts, version, created_at, null, null, null,
               dead_at, reason, payload, body, content_type, headers, errors, terms, null
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
           reason, payload, body, content_type, headers, errors, terms, gate
    from every;
