-- The schema of jobwright on SQLite.
--
-- Unlike on PostgreSQL, one table holds the jobs of all states: there, other tables keep rows that wait for months out of the way of the claims and of
-- HOT updates (docs/adr/0005-separate-tables-and-hot-claims.md), which SQLite does not have. Here partial indexes keep them out of the way
-- (docs/adr/0071-sqlite-one-job-table.md). The payload stands behind the columns that statements compute with, so that those are read without its
-- overflow pages.
--
-- The tables live in the user's own file, hence the prefix. Timestamps and periods are whole microseconds, timestamps since 1970 in UTC. Ids are the
-- 16 bytes of a UUID (`jobwright_jobs` shows them as text). Headers, errors and options are JSON. There is one writer at a time
-- (docs/adr/0016-sqlite-one-writer.md), so no statement needs a lock of its own.

-- ==== Jobs ====

-- A row is the last number given out of a sequence. The only sequence is `job`: the order of sending, which no clock decides.
create table jobwright_sequence (
    name  text primary key,
    value integer not null
) strict, without rowid;

insert into jobwright_sequence (name, value) values ('job', 0);

-- A row is a job, whatever its state. A move is an update of its row.
create table jobwright_job (
    -- The order of sending.
    seq          integer primary key,
    -- waiting: to be claimed. running: a node has claimed it. blocked: it may not start yet, because its group or a limit is taken. external: it is
    -- handed out to an external worker. timer: it is due later, because it was delayed or snoozed, or between two attempts. suspended: by an
    -- operator. dead: a dead letter, a job that failed for good and waits for a person.
    state        text not null default 'waiting' check (
        state = 'waiting' or state = 'running' or state = 'timer' or state = 'blocked' or state = 'dead' or state = 'external' or state = 'suspended'
    ),
    -- The number of the last claim among those of its owner. With the owner it is the fencing token that each outcome names. 0 = never claimed. Of an
    -- external job: the token that its report must name, 53 random bits.
    version      integer not null default 0,
    -- The id of the node that runs it.
    lock_owner   integer,
    -- When it was claimed or handed out.
    claimed_at   integer,
    -- When the lease of an external job ends, and it waits again; and the length of the lease, as handed out. No node's heartbeat answers for such a
    -- job (docs/adr/0021-external-workers-have-a-table-of-their-own.md).
    lease_until  integer,
    lease        integer,
    -- When a timer is due. A suspended timer keeps its due date.
    due_at       integer,
    suspended_at integer,
    dead_at      integer,
    created_at   integer not null,
    id           blob not null check (length(id) = 16),
    -- Raised by each claim, so that an attempt that kills its process counts too.
    attempt      integer not null default 0,
    max_attempts integer not null,
    -- -priority, so that (rank, seq) ascending is the order in which jobs are claimed.
    rank         integer not null,
    kind         text not null,
    queue        text not null,
    -- Claims leave the row to its delivery until then. Null once it was claimed; a suspect that runs alone has -1 (src/store/sqlite/claim.rs).
    visible_at   integer,
    -- The key that a blocked job waits for: a group (g:), or a limit by queue (q:), kind (k:), tenant (t:) or limit key (l:). Suspects wait for 'alone'.
    blocked_on   text,
    -- Whose share of that key it takes: a tenant or a kind, where the rule has shares; else empty.
    share        text not null default '',
    -- It holds what it needs to start, and keeps that until the row is gone, whichever node owns it. Of a blocked job: it is the first of its group,
    -- which it holds while it waits for a limit. A statement that sets it to 0 takes back what the job holds: see the triggers below.
    admitted     integer not null default 0,
    -- Why it is a dead letter: the last error, or why there was no other attempt (the owner was lost, a lease or the time to live ran out).
    reason       text,
    -- group, ordered, tenant, limit, ttl, expires, retry, unique. Null for a plain job, which then pays for none of them.
    options      text,
    -- The last errors, oldest first: attempt, at, node, error, detail.
    errors       text,
    headers      text,
    -- A payload in JSON, or else a body in another format, which content_type names.
    payload      text,
    body         blob,
    content_type text,
    check ((payload is null) <> (body is null)),
    -- A row whose columns contradict its state would be found by nothing that has to go on with it.
    check ((state = 'running') = (lock_owner is not null)),
    check ((state = 'blocked') = (blocked_on is not null)),
    check ((state = 'external') = (lease_until is not null)),
    check ((state = 'dead') = (dead_at is not null)),
    check (due_at is not null or state <> 'timer'),
    check (reason is not null or state <> 'dead'),
    check (lease is not null and claimed_at is not null or state <> 'external')
) strict;

-- Serves every statement that names jobs by id (outcomes, deliveries, operators), and `on conflict (id)` of the inserts.
create unique index jobwright_job_id on jobwright_job (id);

-- For a list of more than two words after `in`, SQLite builds a table each time that a row is written. So the conditions on states here have none.
--
-- The other indexes contain the jobs of some states only, so jobs that wait for months are in the way of no claim. Those whose condition is a column that
-- claims don't set are not even looked at by a claim.

-- Serves the claims and hand-outs, which take the first rows of a queue. A claim removes its entry, so that no scan meets rows that are owned. kind
-- is in it so that jobs of other kinds are skipped without reading their rows, and visible_at so that a check of a queue reads only the index.
create index jobwright_job_acquire on jobwright_job (queue, rank, seq, kind, visible_at) where state = 'waiting';
-- Serves statements that look for what nodes own (nodes.sql, status.sql). Owned rows are few, waiting ones may be a million.
create index jobwright_job_owned on jobwright_job (lock_owner) where lock_owner is not null;
-- Serves promote and next_timer, which read the earliest timers, and skewed_retries, which reads the latest. queue is in it for status.sql, which reads those that are overdue.
create index jobwright_job_due on jobwright_job (due_at, seq, queue) where state = 'timer';
-- Serves expire and next_expiry, which read the jobs that expire first, and skewed_lives, which reads those that expire last. Only jobs with a time
-- to live are in it, and only while they can expire.
create index jobwright_job_expires on jobwright_job (options ->> 'expires')
where options is not null and options ->> 'expires' is not null and (state = 'waiting' or state = 'blocked' or state = 'timer');
-- Serves late_leases and late_check, which find the leases that have run out.
create index jobwright_job_lease on jobwright_job (lease_until) where lease_until is not null;
-- Serves blocked_on_key, which reads the best jobs of a share that are blocked on a key, and the other statements that look for keys and shares.
create index jobwright_job_blocked on jobwright_job (blocked_on, share, rank, seq) where blocked_on is not null;
-- Serves count_waiting, which counts the jobs of a queue with a maximum depth, and status.sql.
create index jobwright_job_blocked_queue on jobwright_job (queue, blocked_on) where blocked_on is not null;
-- Serves prune_dead_letters (`history.dead_letters`), which removes the oldest, and dead_letter_groups, which reads the newest.
create index jobwright_job_dead on jobwright_job (dead_at) where dead_at is not null;
-- These serve status.sql, which steps from queue to queue and counts the first jobs of each. Each has one state: an index that began with the state would be
-- taken for promote.
create index jobwright_job_timer_queue on jobwright_job (queue) where state = 'timer';
create index jobwright_job_suspended_queue on jobwright_job (queue) where state = 'suspended';
create index jobwright_job_dead_queue on jobwright_job (queue) where state = 'dead';
-- Serves operators, who page through the jobs of a state in the order of seq and filter them by queue and kind.
create index jobwright_job_set_aside on jobwright_job (state, seq, queue, kind) where state = 'blocked' or state = 'suspended' or state = 'dead';
-- Serves adopt, which gives a new limit to the jobs that were admitted, and permit_faults.
create index jobwright_job_admitted on jobwright_job (seq) where admitted;

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
    evicted    integer not null default 0,
    -- The queues with their slots, the kinds and the external queues that it works on. This and the next are shown to people, and nothing depends on
    -- them.
    serves     text,
    -- The kinds that it leaves alone at the moment because it can't run them, with the reasons: an object of texts.
    left_alone text,
    failing    text
) strict;

-- ==== Admission: blocked jobs, permits, unblocks, rules, rates ====
-- These tables decide whether a job may start beside others. A job of an exclusive group, or under a limit, needs permits. A job that lacks one is
-- blocked on that permit's key. Whatever may let blocked jobs start writes an unblock, and an admission pass acts on it (docs/adr/0026-admission.md).
-- Unlike on PostgreSQL, no node leases a group, and admission passes count all limits: they wait for no other transaction here.

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

-- Serves permits_of_key and holder_blocked_on_key, which count the permits of a key or find its holder.
create index jobwright_permit_key on jobwright_permit (key);

-- A row says that a key may let jobs start, now (0) or at unblock_at: a permit was released, a job came, a rule changed, or a rate will allow more. A
-- key may have several rows.
create table jobwright_unblock (
    key        text not null,
    unblock_at integer not null default 0,
    -- How many jobs blocked on the key to consider.
    n          integer not null default 1
) strict;

-- Serves take_unblocks and admit_check, which read the earliest, and write_unblock, which looks for an earlier one of the same key.
create index jobwright_unblock_at_key on jobwright_unblock (unblock_at, key);

-- A row says how many jobs started under a rate within a part of its period. Rows are kept for as long as the rule's period reaches back.
create table jobwright_rate_log (
    key text not null,
    -- When the last of them started: all count until that one is over.
    at  integer not null,
    n   integer not null
) strict;

-- Serves starts_of_rate, which adds up the starts of a key within its period, and add_starts, which finds its latest row.
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

-- Serves handler_ended, which names claims.
create index jobwright_terminating_handler_job on jobwright_terminating_handler (job_id, version);
-- Serves late_terminating and late_check. Only handlers of external workers are in it.
create index jobwright_terminating_handler_until on jobwright_terminating_handler (until) where until is not null;

-- Blocks a job of a group on the key of that group, whatever made it wait. Only admission passes set `admitted`.
create trigger jobwright_job_block_sent after insert on jobwright_job
when new.state = 'waiting' and not new.admitted and new.options ->> 'group' is not null
begin
    update jobwright_job set state = 'blocked', blocked_on = 'g:' || (new.options ->> 'group') where seq = new.seq;
    insert into jobwright_unblock (key) values ('g:' || (new.options ->> 'group'));
end;

-- The two triggers on updates fire only for statements that set `admitted`. Those that claim, release and settle plain jobs don't, and pay for
-- neither: a statement that may fire a trigger keeps a journal of the pages it changes, which costs more than the change.
create trigger jobwright_job_block_moved after update of admitted on jobwright_job
when new.state = 'waiting' and not new.admitted and new.options ->> 'group' is not null
begin
    update jobwright_job set state = 'blocked', blocked_on = 'g:' || (new.options ->> 'group') where seq = new.seq;
    insert into jobwright_unblock (key) values ('g:' || (new.options ->> 'group'));
end;

-- Takes back what a job held when it became a timer, a dead letter or suspended. An ordered job keeps its group.
create trigger jobwright_job_take_back after update of admitted on jobwright_job
when old.admitted and not new.admitted
begin
    insert into jobwright_unblock (key)
    select key from jobwright_permit
    where job_id = old.id and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group'));
    delete from jobwright_permit
    where job_id = old.id and not (old.options ->> 'ordered' is not null and key = 'g:' || (old.options ->> 'group'));
end;

-- Frees what a job held when its row is gone, whatever removed it. An ordered job may hold its group without being admitted.
create trigger jobwright_job_free after delete on jobwright_job
when old.admitted or old.options ->> 'ordered' is not null
begin
    insert into jobwright_unblock (key) select key from jobwright_permit where job_id = old.id;
    delete from jobwright_permit where job_id = old.id;
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
-- Serves keys_are_over and prune_unique, which find the periods that are over, and skewed_uniques, which reads those that last longest.
create index jobwright_unique_key_expires on jobwright_unique_key (expires_at) where expires_at is not null;

-- Releases the key of a job when its row is gone.
create trigger jobwright_job_unique after delete on jobwright_job
when old.options ->> 'unique' is not null
begin
    delete from jobwright_unique_key where job_id = old.id and hold <> 'period';
end;

-- ==== External workers ====

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

-- Serves prune_submissions, which removes the oldest.
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

-- Serves next and due of schedules.sql: while nothing is due, they read its first entry and no more.
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

-- Serves the pages of the history, newest first, and prune_history, which removes the oldest.
create index jobwright_history_ended on jobwright_history (ended_at, seq);
-- Serves the history of one job.
create index jobwright_history_job on jobwright_history (job_id);

-- A row is what a handler returned. It is committed with the end of its job.
create table jobwright_result (
    job_id     blob primary key check (length(job_id) = 16),
    kind       text not null,
    payload    text not null,
    created_at integer not null,
    expires_at integer not null
) strict, without rowid;

-- Serves prune_results, which removes those that have expired.
create index jobwright_result_expires on jobwright_result (expires_at);

-- A row says how far a job has got, and from where its next attempt goes on (the checkpoint). It is written while the job runs, outside the
-- transaction of its handler. No trigger removes it with its job: that would cost all jobs, and few have any (prune_progress).
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

-- Serves prune_audit, which removes the oldest.
create index jobwright_audit_at on jobwright_audit (at);

-- ==== Views for people ====
-- For people and reports. PostgreSQL's shared cursors and functions for sending by SQL have no counterpart here.

-- A row is a job, with its id and timestamps as text.
create view jobwright_jobs as
    select lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4) || '-'
                 || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)) as id,
           seq, state, kind, queue, -rank as priority, attempt, max_attempts, version,
           strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1e6, 'unixepoch') as created_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', due_at / 1e6, 'unixepoch') as due_at,
           lock_owner as owner,
           case when state = 'running' then strftime('%Y-%m-%dT%H:%M:%fZ', claimed_at / 1e6, 'unixepoch') end as claimed_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', dead_at / 1e6, 'unixepoch') as dead_at,
           reason, payload, body, content_type, headers, errors, options, blocked_on
    from jobwright_job;
