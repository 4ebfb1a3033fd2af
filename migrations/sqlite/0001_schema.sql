-- The schema of jobwright on SQLite.
--
-- As on PostgreSQL, each state of a job that may last has a table: waiting and running jobs are in `jobwright_job`, and whatever waits for minutes or
-- months (timers, suspended jobs, dead letters, blocked jobs, jobs of external workers) is out of the way of the claims
-- (docs/adr/0005-separate-tables-and-hot-claims.md). A job keeps its id and seq when it moves between the tables. A move writes the copy first and
-- then removes the old row, in one transaction, so the triggers on the old row see the copy.
--
-- The tables live in the user's own file, hence the prefix. Timestamps and periods are whole microseconds, timestamps since 1970 in UTC. Ids are the
-- 16 bytes of a UUID (`jobwright_jobs` shows them as text). Headers, errors and options are JSON. There is one writer at a time
-- (docs/adr/0016-sqlite-one-writer.md), so no statement needs a lock of its own.

-- ==== Jobs and timers ====
-- Jobs that wait or run, timers, suspended jobs and dead letters.
-- `jobwright_job` is the hot table: each job is inserted, claimed (one update) and removed.

-- A row is the last number given out of a sequence. The only sequence is `job`: the order of sending, which no clock decides.
create table jobwright_sequence (
    name  text primary key,
    value integer not null
) strict, without rowid;

insert into jobwright_sequence (name, value) values ('job', 0);

-- A row is a job that waits (lock_owner is null) or runs (lock_owner is not null).
create table jobwright_job (
    -- The order of sending.
    seq          integer primary key,
    -- The number of the last claim among those of its owner. With the owner it is the fencing token that each outcome names. 0 = never claimed.
    version      integer not null default 0,
    -- The id of the node that runs it.
    lock_owner   integer,
    claimed_at   integer,
    created_at   integer not null,
    id           blob not null check (length(id) = 16),
    -- Raised by each claim, so that an attempt that kills its process counts too.
    attempt      integer not null default 0,
    max_attempts integer not null,
    -- -priority, so that (rank, seq) ascending is the order in which jobs are claimed.
    rank         integer not null,
    kind         text not null,
    queue        text not null,
    -- A payload in JSON, or else a body in another format, which content_type names.
    payload      text,
    body         blob,
    content_type text,
    headers      text,
    -- The last errors, oldest first: attempt, at, node, error, detail.
    errors       text,
    -- The row is hidden until then: claims leave it to its delivery. Null once it was claimed.
    visible_at   integer,
    -- group, ordered, tenant, limit, ttl, expires, retry, unique. Null for a plain job, which then pays for none of them.
    options      text,
    -- It holds what it needs to start, and keeps that until the row is gone, whichever node owns it.
    admitted     integer not null default 0,
    check ((payload is null) <> (body is null))
) strict;

-- Serves every statement that names jobs by id (outcomes, deliveries, operators), and `on conflict (id)` of the inserts.
create unique index jobwright_job_id on jobwright_job (id);
-- Serves statements that look for what nodes own: lost_rows.sql, release_unknown.sql, status_nodes.sql. Owned rows are few, waiting ones may be a
-- million.
create index jobwright_job_owned on jobwright_job (lock_owner) where lock_owner is not null;
-- Serves claim.sql, claim_check.sql and hand_out.sql, which take the first rows of a queue. PostgreSQL must not index what a claim changes. Here an
-- index entry is removed either at the claim or at the end of the job, at the same cost, and a scan that never meets owned rows is worth having. kind
-- is in it so that jobs of other kinds are skipped without reading their rows, and visible_at so that a check of a queue reads only the index. So is
-- lock_owner, which is always null there: without it SQLite reads the row to test it again.
create index jobwright_job_acquire on jobwright_job (queue, rank, seq, kind, lock_owner, visible_at) where lock_owner is null;
-- Serves expired_rows.sql and next_expiry.sql, which read the jobs that expire first, and skewed_lives.sql, which reads those that expire last. Only
-- jobs with a time to live are in it.
create index jobwright_job_expires on jobwright_job (options ->> 'expires') where options ->> 'expires' is not null;

-- A row is a job that is due later: delayed, snoozed, or between two attempts. The columns are those of `jobwright_job`.
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
    options      text,
    check ((payload is null) <> (body is null))
) strict;

-- Serves every statement that names jobs by id.
create unique index jobwright_timer_job_id on jobwright_timer_job (id);
-- Serves promote_copy.sql and next_timer.sql, which read the earliest timers, and skewed_retries.sql, which reads the latest.
create index jobwright_timer_job_due on jobwright_timer_job (due_at);
-- As `jobwright_job_expires`.
create index jobwright_timer_job_expires on jobwright_timer_job (options ->> 'expires') where options ->> 'expires' is not null;

-- A row is a job that an operator has suspended.
create table jobwright_suspended_job (
    seq          integer primary key,
    version      integer not null,
    -- A timer keeps its due date. Null: it was waiting or blocked.
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
    errors       text,
    options      text
) strict;

-- Serves every statement that names jobs by id.
create unique index jobwright_suspended_job_id on jobwright_suspended_job (id);

-- A row is a dead letter: a job that failed for good and waits for a person.
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
    -- The last error, or why there was no other attempt: the owner was lost, a lease or the time to live ran out.
    reason       text not null,
    payload      text,
    body         blob,
    content_type text,
    headers      text,
    errors       text,
    options      text
) strict;

-- Serves every statement that names jobs by id.
create unique index jobwright_dead_letter_job_id on jobwright_dead_letter_job (id);
-- Serves operators, who filter dead letters by queue and kind, and status_dead.sql, which counts from the index alone.
create index jobwright_dead_letter_job_queue on jobwright_dead_letter_job (queue, kind);
-- Serves prune_dead_letters.sql (`history.dead_letters`), which removes the oldest, and dead_letter_groups.sql, which reads the newest.
create index jobwright_dead_letter_job_dead on jobwright_dead_letter_job (dead_at);

-- ==== Nodes and liveness ====
-- Running executors. Each node has a file beside the database, which its process keeps locked and writes its heartbeats to: that needs neither the
-- only write lock nor a clock (docs/adr/0048-judged-by-observation.md, src/store/sqlite/liveness_files.rs).

-- A row is a node session. Each start of an executor draws a new id at random, so a name that is used again never revives old ownership.
create table jobwright_node (
    id         integer primary key,
    name       text not null,
    host       text not null,
    pid        integer not null,
    -- How long its heartbeats may stay away.
    lease      integer not null check (lease >= 1000000),
    started_at integer not null,
    -- The end of the first lease. Not kept up to date: the file says whether the node lives.
    expires_at integer not null,
    -- Declared dead: never revived, its jobs are being released.
    dead_at    integer,
    -- How the node stands with the broker; null = it has none.
    broker     text,
    -- Declared dead by hand.
    evicted    integer not null default 0
) strict;

-- ==== Admission: blocked jobs, permits, unblocks, rules, rates ====
-- These tables decide whether a job may start beside others. A job of an exclusive group, or under a limit, needs permits. A job that lacks one is
-- blocked on that permit's key. Whatever may let blocked jobs start writes an unblock, and an admission pass acts on it (docs/adr/0026-admission.md).
-- Unlike on PostgreSQL, blocked jobs have a table of their own, no node leases a group, and admission passes count all limits: they wait for no other
-- transaction here.

-- A row is a job that may not start yet, because its group or a limit is taken. However many there are, no claim walks over them.
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
    options      text,
    -- The first of its group, which it holds while it waits for a limit.
    admitted     integer not null default 0,
    -- The key that it waits for: a group (g:), or a limit by queue (q:), kind (k:), tenant (t:) or limit key (l:).
    blocked_on   text not null,
    -- Whose share of that key it takes: a tenant or a kind, where the rule has shares; else empty.
    share        text not null default ''
) strict;

-- Serves every statement that names jobs by id.
create unique index jobwright_blocked_job_id on jobwright_blocked_job (id);
-- Serves blocked_on_key.sql, which reads the best jobs of a share that are blocked on a key, and blocked_shares.sql, aging_queues.sql,
-- age_blocked.sql and unblock_keys.sql, which look for keys and shares.
create index jobwright_blocked_job_blocked_on on jobwright_blocked_job (blocked_on, share, rank, seq);
-- As `jobwright_job_expires`.
create index jobwright_blocked_job_expires on jobwright_blocked_job (options ->> 'expires') where options ->> 'expires' is not null;
-- Serves count_waiting.sql, which counts the jobs of a queue with a maximum depth, and status_blocked.sql.
create index jobwright_blocked_job_queue on jobwright_blocked_job (queue);

-- A row is a rule: what the installation asks of its jobs. The name '*' means each one that has no rule of its own.
create table jobwright_rule (
    scope      text not null check (scope in ('queue', 'kind', 'tenant', 'key', 'group')),
    name       text not null,
    paused     integer not null default 0,
    -- How many may run at the same time, over all nodes.
    running    integer check (running >= 0),
    -- How many may start within any period.
    rate       integer check (rate >= 1),
    period     integer check (period >= 1000),
    -- Each time that a job of this queue has waited for this long, it counts as one priority higher.
    aging      integer check (aging >= 1000000),
    -- How many jobs may wait in this queue before senders are told that it is full.
    depth      integer check (depth >= 0),
    -- How the permits of a limited queue are divided among tenants or kinds.
    shares     text,
    changed_at integer not null,
    primary key (scope, name),
    check ((rate is null) = (period is null))
) strict, without rowid;

-- A row is a permit and its holder. The key says what it is a permit of: an exclusive group (g:) or a limit (q:, k:, t:, l:).
create table jobwright_permit (
    -- The job that holds it, or the handler of one that was cancelled (jobwright_terminating_handler.holder).
    job_id blob not null,
    key    text not null,
    primary key (job_id, key)
) strict, without rowid;

-- Serves permits_of_key.sql and holder_blocked_on_key.sql, which count the permits of a key or find its holder.
create index jobwright_permit_key on jobwright_permit (key);

-- A row says that a key may let jobs start, now (0) or at unblock_at: a permit was released, a job came, a rule changed, or a rate will allow more. A
-- key may have several rows.
create table jobwright_unblock (
    key        text not null,
    unblock_at integer not null default 0,
    -- How many jobs blocked on the key to consider.
    n          integer not null default 1
) strict;

-- Serves take_unblocks.sql and admit_check.sql, which read the earliest, and write_unblock.sql, which looks for an earlier one of the same key.
create index jobwright_unblock_at_key on jobwright_unblock (unblock_at, key);

-- A row says how many jobs started under a rate within a part of its period. Rows are kept for as long as the rule's period reaches back.
create table jobwright_rate_log (
    key text not null,
    -- When the last of them started: all count until that one is over.
    at  integer not null,
    n   integer not null
) strict;

-- Serves starts_of_rate.sql, which adds up the starts of a key within its period, and add_starts.sql, which finds its latest row.
create index jobwright_rate_log_key on jobwright_rate_log (key, at);

-- A row is a terminating handler: its job was cancelled while it ran. The row of the job is gone at once, but the handler still runs. The group and
-- the permits of the job stay taken until the node reports that the handler has ended, or until the node is dead or retired
-- (docs/adr/0055-terminating-handlers.md).
create table jobwright_terminating_handler (
    -- Stands for the job in jobwright_permit, because the same id may be sent again and waits like any other.
    holder  blob primary key,
    job_id  blob not null,
    -- The version of the claim, or the token of the hand-out, that the handler runs under.
    version integer not null,
    -- The node whose handler it is. Null = of an external worker, whose lease ends at `until`.
    node    integer,
    until   integer,
    check ((node is null) = (until is not null))
) strict, without rowid;

-- Serves handler_ended.sql, which names claims.
create index jobwright_terminating_handler_job on jobwright_terminating_handler (job_id, version);
-- Serves late_terminating.sql and external_late_check.sql. Only handlers of external workers are in it.
create index jobwright_terminating_handler_until on jobwright_terminating_handler (until) where until is not null;

-- Blocks a job of a group on the key of that group, however the job came here. The row itself is then left out.
create trigger jobwright_job_block before insert on jobwright_job
when new.options is not null and not new.admitted and new.options ->> 'group' is not null
begin
    insert into jobwright_blocked_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                                       payload, body, content_type, headers, errors, options, blocked_on)
    values (new.seq, new.version, new.created_at, new.id, new.attempt, new.max_attempts, new.rank, new.kind, new.queue,
            new.payload, new.body, new.content_type, new.headers, new.errors, new.options, 'g:' || (new.options ->> 'group'))
    on conflict (id) do nothing;
    insert into jobwright_unblock (key) values ('g:' || (new.options ->> 'group'));
    select raise(ignore);
end;

-- These triggers free what a job held when its row is gone, whatever removed it. A job that only moved keeps its permits: it was handed out, taken
-- back or admitted. An ordered job keeps its group as long as any row of it exists. There is one trigger for each table, because SQLite has no
-- functions that they could share. In `jobwright_job` and `jobwright_external_job` (see there) only an admitted job holds anything.
create trigger jobwright_job_free after delete on jobwright_job
when old.admitted
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_unblock (key)
    select key from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

-- A blocked job holds its group if it is admitted or ordered.
create trigger jobwright_blocked_job_free after delete on jobwright_blocked_job
when (old.admitted or old.options ->> 'ordered' is not null)
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_unblock (key)
    select key from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

-- In the other tables only an ordered job holds anything: its group.
create trigger jobwright_timer_job_free after delete on jobwright_timer_job
when old.options ->> 'ordered' is not null
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_unblock (key)
    select key from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

create trigger jobwright_suspended_job_free after delete on jobwright_suspended_job
when old.options ->> 'ordered' is not null
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_unblock (key)
    select key from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

create trigger jobwright_dead_letter_job_free after delete on jobwright_dead_letter_job
when old.options ->> 'ordered' is not null
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_unblock (key)
    select key from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

-- Transfers what a cancelled job holds to its terminating handler, before the job's row is gone and the trigger there frees it.
create trigger jobwright_terminating_handler_permits after insert on jobwright_terminating_handler
begin
    update jobwright_permit set job_id = new.holder where job_id = new.job_id;
end;

-- Frees what a terminating handler held when its row is gone, whatever removed it.
create trigger jobwright_terminating_handler_ended after delete on jobwright_terminating_handler
begin
    insert into jobwright_unblock (key) select key from jobwright_permit where job_id = old.holder;
    delete from jobwright_permit where job_id = old.holder;
end;

-- ==== Unique keys ====
-- The table says which unique job holds which key (docs/adr/0031-unique.md). Whether a key is held is decided when a sender asks for it, by where its
-- job is at that moment. So a key that is left over blocks nothing.

-- A row is a key that a unique job took. A key whose job is in no table is free for any sender.
create table jobwright_unique_key (
    -- The SHA-256 of what must be unique: kind, maybe queue, and a key or payload.
    key        blob primary key,
    job_id     blob not null,
    -- It is held while that job waits, until it is gone, or for a period.
    hold       text not null check (hold in ('waiting', 'done', 'period')),
    -- When the period ends, if it is held for one.
    expires_at integer,
    -- When it was taken, if it is held for a period. A key that was taken while the clock was ahead is held for as long as was asked for, and no
    -- longer (docs/adr/0054-a-clock-that-was-ahead.md).
    taken_at   integer,
    check ((hold = 'period') = (expires_at is not null))
) strict, without rowid;

-- Serves the triggers below, which release the key of a job.
create index jobwright_unique_key_job on jobwright_unique_key (job_id);
-- Serves keys_are_over.sql and prune_unique.sql, which find the periods that are over, and skewed_uniques.sql, which reads those that last longest.
create index jobwright_unique_key_expires on jobwright_unique_key (expires_at) where expires_at is not null;

-- These triggers release the key of a job when its last row is gone. There is one for each table, as above.
create trigger jobwright_job_unique after delete on jobwright_job
when old.options ->> 'unique' is not null
 and not exists (select 1 from jobwright_job where id = old.id)
 and not exists (select 1 from jobwright_timer_job where id = old.id)
 and not exists (select 1 from jobwright_blocked_job where id = old.id)
 and not exists (select 1 from jobwright_external_job where id = old.id)
 and not exists (select 1 from jobwright_dead_letter_job where id = old.id)
 and not exists (select 1 from jobwright_suspended_job where id = old.id)
begin
    delete from jobwright_unique_key where job_id = old.id and hold <> 'period';
end;

create trigger jobwright_blocked_job_unique after delete on jobwright_blocked_job
when old.options ->> 'unique' is not null
 and not exists (select 1 from jobwright_job where id = old.id)
 and not exists (select 1 from jobwright_timer_job where id = old.id)
 and not exists (select 1 from jobwright_blocked_job where id = old.id)
 and not exists (select 1 from jobwright_external_job where id = old.id)
 and not exists (select 1 from jobwright_dead_letter_job where id = old.id)
 and not exists (select 1 from jobwright_suspended_job where id = old.id)
begin
    delete from jobwright_unique_key where job_id = old.id and hold <> 'period';
end;

create trigger jobwright_timer_job_unique after delete on jobwright_timer_job
when old.options ->> 'unique' is not null
 and not exists (select 1 from jobwright_job where id = old.id)
 and not exists (select 1 from jobwright_timer_job where id = old.id)
 and not exists (select 1 from jobwright_blocked_job where id = old.id)
 and not exists (select 1 from jobwright_external_job where id = old.id)
 and not exists (select 1 from jobwright_dead_letter_job where id = old.id)
 and not exists (select 1 from jobwright_suspended_job where id = old.id)
begin
    delete from jobwright_unique_key where job_id = old.id and hold <> 'period';
end;

create trigger jobwright_suspended_job_unique after delete on jobwright_suspended_job
when old.options ->> 'unique' is not null
 and not exists (select 1 from jobwright_job where id = old.id)
 and not exists (select 1 from jobwright_timer_job where id = old.id)
 and not exists (select 1 from jobwright_blocked_job where id = old.id)
 and not exists (select 1 from jobwright_external_job where id = old.id)
 and not exists (select 1 from jobwright_dead_letter_job where id = old.id)
 and not exists (select 1 from jobwright_suspended_job where id = old.id)
begin
    delete from jobwright_unique_key where job_id = old.id and hold <> 'period';
end;

create trigger jobwright_dead_letter_job_unique after delete on jobwright_dead_letter_job
when old.options ->> 'unique' is not null
 and not exists (select 1 from jobwright_job where id = old.id)
 and not exists (select 1 from jobwright_timer_job where id = old.id)
 and not exists (select 1 from jobwright_blocked_job where id = old.id)
 and not exists (select 1 from jobwright_external_job where id = old.id)
 and not exists (select 1 from jobwright_dead_letter_job where id = old.id)
 and not exists (select 1 from jobwright_suspended_job where id = old.id)
begin
    delete from jobwright_unique_key where job_id = old.id and hold <> 'period';
end;

-- ==== External workers ====
-- Jobs that were handed out through the broker to programs that know nothing of this database
-- (docs/adr/0021-external-workers-have-a-table-of-their-own.md).

-- A row is a hand-out. No node's heartbeat answers for it, so it has a lease of its own.
create table jobwright_external_job (
    seq          integer primary key,
    -- The token that its report must name: 53 random bits.
    version      integer not null,
    -- Then it waits again.
    lease_until  integer not null,
    -- The length of the lease, as handed out.
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
    errors       text,
    options      text,
    -- As in `jobwright_job`.
    admitted     integer not null default 0
) strict;

-- Serves every statement that names jobs by id, reports above all.
create unique index jobwright_external_job_id on jobwright_external_job (id);
-- Serves external_late.sql and external_late_check.sql, which find the leases that have run out.
create index jobwright_external_job_lease on jobwright_external_job (lease_until);

-- Permits and unique keys of a hand-out are released as those of a row of `jobwright_job`.
create trigger jobwright_external_job_free after delete on jobwright_external_job
when old.admitted
 and not exists (select 1 from jobwright_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_external_job where id = old.id and admitted)
 and not exists (select 1 from jobwright_blocked_job where id = old.id and admitted)
begin
    insert into jobwright_unblock (key)
    select key from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
    delete from jobwright_permit
    where job_id = old.id
      and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group')
               and (exists (select 1 from jobwright_timer_job where id = old.id)
                    or exists (select 1 from jobwright_dead_letter_job where id = old.id)
                    or exists (select 1 from jobwright_suspended_job where id = old.id)
                    or exists (select 1 from jobwright_blocked_job where id = old.id)));
end;

create trigger jobwright_external_job_unique after delete on jobwright_external_job
when old.options ->> 'unique' is not null
 and not exists (select 1 from jobwright_job where id = old.id)
 and not exists (select 1 from jobwright_timer_job where id = old.id)
 and not exists (select 1 from jobwright_blocked_job where id = old.id)
 and not exists (select 1 from jobwright_external_job where id = old.id)
 and not exists (select 1 from jobwright_dead_letter_job where id = old.id)
 and not exists (select 1 from jobwright_suspended_job where id = old.id)
begin
    delete from jobwright_unique_key where job_id = old.id and hold <> 'period';
end;

-- The only row is the key of the tokens that external workers send back with their reports: 32 random bytes
-- (docs/adr/0058-tokens-of-hand-outs.md).
create table jobwright_report_key (
    only_one integer primary key default 1 check (only_one = 1),
    key      blob not null check (length(key) = 32)
) strict;

insert into jobwright_report_key (key) values (randomblob(32));

-- ==== Submissions through the broker ====
-- What third-party producers submitted through the broker, remembered for as long as they may send it again.

-- A row is a submission. It outlives its job.
create table jobwright_submission (
    id          blob primary key check (length(id) = 16),
    -- The SHA-256 of the message: it tells a repeated message from another one under the same id.
    digest      blob not null,
    received_at integer not null
) strict, without rowid;

-- Serves prune_submissions.sql, which removes the oldest.
create index jobwright_submission_received on jobwright_submission (received_at);

-- ==== Schedules ====
-- Repeating jobs: when, and what to send (docs/adr/0034-schedules.md).

-- A row is a schedule. Nodes compute its next occurrence and write it in the same transaction as the jobs of the last one.
create table jobwright_schedule (
    name         text primary key,
    -- Raised by each change, named by each change.
    version      integer not null default 0,
    -- The cron line or interval, and the time zone that it is read in.
    schedule     text not null,
    zone         text not null,
    -- What to do about occurrences that were missed: once, skip or all.
    misfire      text not null,
    -- Whether an occurrence fires although the job of the last one has not ended: allow or forbid.
    overlap      text not null,
    -- When it ends, and after how many jobs.
    until_at     integer,
    times        integer,
    -- Intervals without a start of their own count from here.
    anchor_at    integer not null,
    paused       integer not null default 0,
    -- The next occurrence; null = there is none any more.
    next_at      integer,
    -- The last occurrence that fired, its job, and how many occurrences sent a job.
    last_at      integer,
    last_job     blob,
    fired        integer not null default 0,
    created_at   integer not null,
    -- What to send, as in `jobwright_job`.
    kind         text not null,
    queue        text not null,
    priority     integer not null,
    max_attempts integer not null,
    payload      text,
    body         blob,
    content_type text,
    headers      text,
    options      text,
    check ((payload is null) <> (body is null))
) strict, without rowid;

-- Serves schedule_next.sql and schedule_due.sql: while nothing is due, they read its first entry and no more.
create index jobwright_schedule_due on jobwright_schedule (next_at) where paused = 0 and next_at is not null;

-- ==== History, results, progress, audit ====
-- What is remembered of jobs that ended, their results, and how far running ones have got (docs/adr/0037-history-progress-results.md). These three
-- tables stay empty, and cost nothing, unless they are asked for. The audit says what operators did (docs/adr/0033-steering-and-cancellation.md).

-- A row is the end of an attempt, or of a job. Rows are only appended and pruned, never updated.
create table jobwright_history (
    job_id     blob not null check (length(job_id) = 16),
    seq        integer not null,
    kind       text not null,
    queue      text not null,
    -- done; failed, lost (to be tried again); dead, expired, cancelled, deleted.
    outcome    text not null,
    attempt    integer not null,
    created_at integer not null,
    started_at integer,
    ended_at   integer not null,
    -- The node that ran it; 0 = an external worker, null = it did not run.
    node       integer,
    tenant     text,
    error      text
) strict;

-- Serves the pages of history.sql, newest first, and prune_history.sql, which removes the oldest.
create index jobwright_history_ended on jobwright_history (ended_at, seq);
-- Serves history.sql of one job.
create index jobwright_history_job on jobwright_history (job_id);

-- A row is what a handler returned. It is committed with the end of its job.
create table jobwright_result (
    job_id     blob primary key check (length(job_id) = 16),
    kind       text not null,
    payload    text not null,
    created_at integer not null,
    expires_at integer not null
) strict, without rowid;

-- Serves prune_results.sql, which removes those that have expired.
create index jobwright_result_expires on jobwright_result (expires_at);

-- A row says how far a job has got, and from where its next attempt goes on (the checkpoint). It is written while the job runs, outside the
-- transaction of its handler. No trigger removes it with its job: that would cost all jobs, and few have any (prune_progress.sql).
create table jobwright_progress (
    job_id     blob primary key check (length(job_id) = 16),
    percent    integer check (percent between 0 and 100),
    note       text,
    checkpoint text,
    at         integer not null
) strict;

-- A row is an action of an operator, written in the transaction of what it did.
create table jobwright_audit (
    id     integer primary key,
    at     integer not null,
    who    text not null,
    action text not null,
    -- What the action was about: a filter and a change, a rule, or a node.
    what   text not null,
    -- How many jobs it touched, by the state they were in.
    counts text not null default '{}'
) strict;

-- Serves prune_audit.sql, which removes the oldest.
create index jobwright_audit_at on jobwright_audit (at);

-- ==== Views for people ====
-- For people and reports. PostgreSQL's shared cursors and functions for sending by SQL have no counterpart here.

-- A row is a job, in whichever table it is, with its state as a word, and its id and timestamps as text.
create view jobwright_jobs as
    with every as (
        select id, seq, case when lock_owner is null then 'waiting' else 'running' end as state, kind, queue, rank,
               attempt, max_attempts, version, created_at, null as due_at, lock_owner as owner, claimed_at,
               null as dead_at, null as reason, payload, body, content_type, headers, errors, options, null as blocked_on
        from jobwright_job
        union all
        select id, seq, 'blocked', kind, queue, rank, attempt, max_attempts, version, created_at, null, null, null,
               null, null, payload, body, content_type, headers, errors, options, blocked_on
        from jobwright_blocked_job
        union all
        select id, seq, 'external', kind, queue, rank, attempt, max_attempts, version, created_at, null, null, null,
               null, null, payload, body, content_type, headers, errors, options, null
        from jobwright_external_job
        union all
        select id, seq, 'timer', kind, queue, rank, attempt, max_attempts, version, created_at, due_at, null, null,
               null, null, payload, body, content_type, headers, errors, options, null
        from jobwright_timer_job
        union all
        select id, seq, 'suspended', kind, queue, rank, attempt, max_attempts, version, created_at, due_at, null, null,
               null, null, payload, body, content_type, headers, errors, options, null
        from jobwright_suspended_job
        union all
        select id, seq, 'dead', kind, queue, rank, attempt, max_attempts, version, created_at, null, null, null,
               dead_at, reason, payload, body, content_type, headers, errors, options, null
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
           reason, payload, body, content_type, headers, errors, options, blocked_on
    from every;
