-- The schema of jobwright on PostgreSQL.
--
-- Each state of a job that may last has a table: waiting and running jobs are in `job`, and whatever waits for minutes or months (timers, suspended
-- jobs, dead letters, jobs of external workers) is out of the way of the claims (docs/adr/0005-separate-tables-and-hot-claims.md). A job keeps its
-- `id` and `seq` when it moves between the tables. A move deletes the row from one table and inserts it into the other, in one transaction.
--
-- Functions that must see what was committed while they waited are volatile PL/pgSQL: each of their statements has a snapshot of its own, whereas a
-- single statement has one. Functions that run with their owner's rights (`security definer`) say why.
--
-- Each table has a replica identity: the columns by which logical decoding names the row that was changed or removed. Without one, PostgreSQL refuses
-- each update and each delete of a table as soon as any publication covers it, and `create publication ... for all tables` covers all. Change data
-- capture, blue/green deployments and most tools for upgrades create such a publication. Some tools ask for a primary key, so the tables of jobs have one.
--
-- Constraints refuse rows that no statement of the engine can carry on when they come, and not when they keep others from being claimed, admitted or
-- released. The library and `send` refuse them too; SQL by hand, a restored table or a program of another hand may not. What is refused is what makes
-- a statement fail for all of its rows: a counter that can't be raised, a name or a group that no index takes, a time without an end, an empty key
-- (which no list shows), options that are no object, headers of a size that no build writes. A value that makes no sense and costs only its own job is
-- not refused. Each claim checks the constraints again, so they are short.
--
-- For each lookup only one index is possible. A node plans its statements once, often on empty tables, where all plans cost the same and the
-- planner may take any of them (docs/adr/0064-planned-on-empty-tables.md). Hence the conditions and the collation that look odd below.

-- Constraints, defaults and functions mean the same whatever the search path of the caller is. A function or operator that fits its arguments exactly wins
-- over one that needs a conversion, in whichever schema of the path it is: who may create objects in such a schema could run code as the caller.
set local search_path = pg_catalog, pg_temp;

-- ==== Jobs and timers ====
-- Jobs that wait or run, timers, suspended jobs and dead letters, and the lock that decides whether an id is new.
-- `job` is the hot table: each job is inserted, claimed (one update) and removed.

-- The order of sending. A number is taken when a job is flushed, so no node's clock decides the order.
create sequence {schema}.job_seq as bigint;

-- Returns whether the parts of a job that most jobs do not have are such that statements can carry them on. It is a function, because the server reads the
-- whole text of a constraint for each statement that writes a row: as an expression, this one took longer than the insert. Whoever may insert a job
-- needs to execute it, also where new functions are not for everybody. A job without options and headers pays for none of it.
-- An option that is not given is null, and so is what is said about it. Sizes are those of the text: what is stored may be compressed, and is not so
-- in the next statement that changes it.
--
-- It has no search path of its own, because to set one takes longer than the checks. So each operator, function and type in it is named with its
-- schema, and `between`, `in` and `case` with a value, which look for operators, do not occur. Options that are short and have no numbers, which is
-- nearly all of them, need none of the other checks. How large they are as stored is asked first: a number may be a thousand times as long in text.
create function {schema}.is_carriable(options jsonb, headers jsonb) returns boolean
language plpgsql immutable
as $carriable$
begin
    if headers is null and pg_catalog.pg_column_size(options) operator(pg_catalog.<=) 1000
        and pg_catalog.octet_length(options::pg_catalog.text) operator(pg_catalog.<=) 200
        and pg_catalog.jsonb_typeof(options) operator(pg_catalog.=) 'object'::pg_catalog.text
        and coalesce(pg_catalog.jsonb_typeof(options operator(pg_catalog.->) 'group'::pg_catalog.text) operator(pg_catalog.=) 'string'::pg_catalog.text, true)
        and not (options operator(pg_catalog.?|) '{expires,ttl,aged}'::pg_catalog.text[])
    then
        return true;
    end if;
    return coalesce(
            pg_catalog.jsonb_typeof(options) operator(pg_catalog.=) 'object'::pg_catalog.text
                and pg_catalog.pg_column_size(options) operator(pg_catalog.<=) 131072
                and pg_catalog.octet_length(options::pg_catalog.text) operator(pg_catalog.<=) 16384
                and coalesce(pg_catalog.jsonb_typeof(options operator(pg_catalog.->) 'group'::pg_catalog.text) operator(pg_catalog.=) 'string'::pg_catalog.text
                             and pg_catalog.octet_length(options operator(pg_catalog.->>) 'group'::pg_catalog.text) operator(pg_catalog.<=) 200, true)
                and coalesce(pg_catalog.octet_length(options operator(pg_catalog.->>) 'tenant'::pg_catalog.text) operator(pg_catalog.<=) 200, true)
                and coalesce(pg_catalog.octet_length(options operator(pg_catalog.->>) 'limit'::pg_catalog.text) operator(pg_catalog.<=) 200, true)
                and coalesce((options operator(pg_catalog.->>) 'expires'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.>=) 0::pg_catalog.int8
                             and (options operator(pg_catalog.->>) 'expires'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.<=) 9999999999999999::pg_catalog.int8, true)
                and coalesce((options operator(pg_catalog.->>) 'ttl'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.>=) 0::pg_catalog.int8
                             and (options operator(pg_catalog.->>) 'ttl'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.<=) 9999999999999999::pg_catalog.int8, true)
                and coalesce((options operator(pg_catalog.->>) 'aged'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.>=) 0::pg_catalog.int8
                             and (options operator(pg_catalog.->>) 'aged'::pg_catalog.text)::pg_catalog.int8 operator(pg_catalog.<=) 99999::pg_catalog.int8, true), true)
        and coalesce(
            pg_catalog.jsonb_typeof(headers) operator(pg_catalog.=) 'object'::pg_catalog.text
                -- A number may be a thousand times as long in text as it is stored, and a header has no numbers.
                and case when pg_catalog.jsonb_path_exists(headers, '$.* ? (@.type() != "string")'::pg_catalog.jsonpath)
                         then pg_catalog.pg_column_size(headers) operator(pg_catalog.<=) 65536
                         else pg_catalog.octet_length(headers::pg_catalog.text) operator(pg_catalog.<=) 524288 end, true);
end
$carriable$;
grant execute on function {schema}.is_carriable(jsonb, jsonb) to public;
comment on function {schema}.is_carriable is 'whether statements can carry these parts of a job on: a constraint of the tables of jobs';

-- A row is a job. It runs if it has an owner (lock_owner). Else it is blocked if it has a key (blocked_on), and waits if it has neither. In a group
-- run, a running job keeps its key, so it is blocked again if it is given back.
--
-- A claim changes attempt, lock_owner, claimed_at, version and visible_at. No index may ever cover one of them, not even in its condition. Then the
-- update stays within its page (HOT), which was measured at 1.5 times the rate and half the WAL of a partial index on unowned rows. The fillfactor
-- leaves the space for that. A claim does not change options, admitted, blocked_on and share, so indexes may use these.
--
-- attempt, lock_owner, claimed_at and version are adjacent and begin at a multiple of eight, because the server logs of an update the bytes from the
-- first to the last that changed. That order alone saves 24 of the 192 bytes of WAL of a claim. Owner and version have 32 bits for the same reason,
-- which saves 8 more. Both are made by the claiming process (src/job/token.rs): together 62 bits that the database need not remember.
create table {schema}.job (
    seq          bigint not null default nextval('{schema}.job_seq'),
    created_at   timestamptz not null default clock_timestamp(),
    id           uuid not null,
    attempt      integer not null default 0,
    -- The id of the node that runs it.
    lock_owner   integer,
    claimed_at   timestamptz,
    version      integer not null default 0,
    max_attempts integer not null,
    rank         smallint not null,
    kind         text not null,
    queue        text not null,
    -- A payload in JSON, or else a body in another format, which content_type names.
    payload      jsonb,
    body         bytea,
    content_type text,
    headers      jsonb,
    -- The last errors, oldest first: attempt, at, node, error, detail.
    errors       jsonb,
    visible_at   timestamptz,
    -- Null for a plain job, which then pays for none of the options.
    options      jsonb,
    admitted     boolean not null default false,
    blocked_on   text,
    share        text,
    constraint job_has_one_content check ((payload is null) <> (body is null)),
    constraint job_numbers check (
        attempt between 0 and 2000000000 and rank > -32768 and isfinite(created_at)
        and greatest(octet_length(kind), octet_length(queue)) <= 100 and blocked_on <> ''
    ),
    constraint job_options check (coalesce(options, headers) is null or {schema}.is_carriable(options, headers))
) with (
    fillfactor = 45,
    -- A queue turns over its whole content again and again, so the number of dead rows triggers a vacuum, and not their share of the table.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 5000,
    -- Returning pages to the system takes an exclusive lock, which would stop every claim.
    vacuum_truncate = off
);

comment on column {schema}.job.rank is '-priority, so that (rank, seq) ascending is the order in which jobs are claimed';
comment on column {schema}.job.version is 'number of the last claim among those of its owner; with the owner the fencing token that each outcome names; 0 = never claimed';
comment on column {schema}.job.attempt is 'raised by each claim, so that an attempt that kills its process counts too';
comment on column {schema}.job.visible_at is 'the row is hidden until then: claims leave it to its delivery; null once it was claimed';
comment on column {schema}.job.options is 'group, ordered, tenant, limit, ttl, expires (microseconds since 1970), retry, unique; null = none';
comment on column {schema}.job.admitted is 'holds what it needs to start, until the row is gone, whichever node owns it; if it is blocked on a key: the first of its group, which it holds while it waits for a limit';
comment on column {schema}.job.blocked_on is 'the key that it waits for: a group (g:), or a limit by queue (q:), kind (k:), tenant (t:) or limit key (l:); null = none';
comment on column {schema}.job.share is 'whose share of that key it takes: a tenant or a kind, where the rule has shares; empty = none';

-- Serves every statement that names jobs by id (outcomes, deliveries, operators), and `on conflict (id)` of the inserts. It and `job_acquire`
-- grow at their right ends. When the last page of such an index is full it is split, and what moves to the new page is logged a second time. A
-- fillfactor of 97 instead of 90 saves 4 bytes of WAL for each job and a tenth of the size. 99 costs more than it saves as soon as eight senders
-- insert at the same time.
alter table {schema}.job add constraint job_id primary key (id) with (fillfactor = 97);
-- Serves expire_jobs.sql and maintenance_due.sql, which read the jobs that expire first, and repair_lives.sql, which reads those that expire last.
-- Only jobs with a time to live are in it.
create index job_expires on {schema}.job (((options ->> 'expires')::int8)) where options ? 'expires';
-- Serves claim.sql, claim_counted.sql and hand_out.sql, which take the first rows of a queue; also list.sql, status_walk.sql, full_queues.sql, age.sql
-- and admit_candidates.sql. Blocked jobs are not in it, so no claim walks over them, however many there are.
create index job_acquire on {schema}.job (queue, rank, seq) with (fillfactor = 97) where blocked_on is null;
-- Serves admit_candidates.sql and complete_and_claim_next.sql, which read the best jobs that are blocked on a key (of a share) from the start, and
-- for statements that step from key to key, share to share or rank to rank.
create index job_blocked_on on {schema}.job (blocked_on, share, rank, seq) where blocked_on is not null;
-- Serves full_queues.sql, which counts the blocked jobs of a queue with a maximum depth, the pages of list.sql, and status_walk.sql. Only a statement that asks
-- for `blocked_on > ''` can use it: with the condition `is not null`, the planner took it, as the smallest index, to find any key and any id by
-- walking over all blocked jobs.
create index job_blocked on {schema}.job (queue, seq) where blocked_on > '';
-- Serves claim_counted.sql: admitted jobs hold what they need, so they need not wait for those before them that may not start. The condition is that
-- of the claim, word for word, and of no other statement.
create index job_admitted on {schema}.job (queue, rank, seq) where admitted and coalesce(blocked_on, '') = '';

-- A row is a job that is due later: delayed, snoozed, or between two attempts. The columns are those of `job`.
create table {schema}.timer_job (
    seq          bigint not null default nextval('{schema}.job_seq'),
    version      bigint not null default 0,
    due_at       timestamptz not null,
    created_at   timestamptz not null default clock_timestamp(),
    id           uuid not null,
    attempt      integer not null default 0,
    max_attempts integer not null,
    rank         smallint not null,
    kind         text not null,
    queue        text not null,
    payload      jsonb,
    body         bytea,
    content_type text,
    headers      jsonb,
    errors       jsonb,
    options      jsonb,
    constraint timer_job_has_one_content check ((payload is null) <> (body is null)),
    -- A timer is due at some time, and its version is one that `job` can have.
    constraint timer_job_numbers check (
        attempt between 0 and 2000000000 and rank > -32768 and isfinite(created_at)
        and isfinite(due_at) and version between 0 and 2147483647
        and greatest(octet_length(kind), octet_length(queue)) <= 100
    ),
    constraint timer_job_options check (coalesce(options, headers) is null or {schema}.is_carriable(options, headers))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

-- Serves every statement that names jobs by id.
alter table {schema}.timer_job add constraint timer_job_id primary key (id);
-- Serves promote.sql and maintenance_due.sql, which read the earliest timers, and repair_retries.sql, which reads the latest.
create index timer_job_due on {schema}.timer_job (due_at);
-- As `job_expires`.
create index timer_job_expires on {schema}.timer_job (((options ->> 'expires')::int8)) where options ? 'expires';
-- Serves the pages of list.sql. `job` has no index on seq alone, because each job that is sent would pay for it; list.sql finds its pages by queue
-- and rank.
create index timer_job_seq on {schema}.timer_job (seq);
-- Serves status_walk.sql, which counts the first timers of each queue. It does not have due_at: then the planner could take it for promote.sql.
create index timer_job_queue on {schema}.timer_job (queue);

-- A row is a job that an operator has suspended.
create table {schema}.suspended_job (
    seq          bigint not null,
    version      bigint not null,
    -- A timer keeps its due date. Null: it was waiting or blocked.
    due_at       timestamptz,
    suspended_at timestamptz not null default clock_timestamp(),
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
    errors       jsonb,
    options      jsonb
);

-- Serves every statement that names jobs by id.
alter table {schema}.suspended_job add constraint suspended_job_id primary key (id);
-- Serves the pages of list.sql.
create index suspended_job_seq on {schema}.suspended_job (seq);
-- Serves status_walk.sql, which counts the first of each queue, and operators, who filter by queue.
create index suspended_job_queue on {schema}.suspended_job (queue);

-- A row is a dead letter: a job that failed for good and waits for a person.
create table {schema}.dead_letter_job (
    seq          bigint not null,
    version      bigint not null,
    dead_at      timestamptz not null default clock_timestamp(),
    created_at   timestamptz not null,
    id           uuid not null,
    attempt      integer not null,
    max_attempts integer not null,
    rank         smallint not null,
    kind         text not null,
    queue        text not null,
    -- The last error, or why there was no other attempt: the owner was lost, a lease or the time to live ran out.
    reason       text not null,
    payload      jsonb,
    body         bytea,
    content_type text,
    headers      jsonb,
    errors       jsonb,
    options      jsonb
);

-- Serves every statement that names jobs by id.
alter table {schema}.dead_letter_job add constraint dead_letter_job_id primary key (id);
-- Serves operators, who filter dead letters by queue and kind (filter.sql, planned with the values), and the counts of status_walk.sql.
create index dead_letter_job_queue on {schema}.dead_letter_job (queue, kind);
-- Serves the pages of list.sql.
create index dead_letter_job_seq on {schema}.dead_letter_job (seq);
-- Serves prune_dead_letters.sql (`history.dead_letters`), which removes the oldest, and dead_letter_groups.sql, which reads the newest.
create index dead_letter_job_dead on {schema}.dead_letter_job (dead_at);

-- A row is an id that a sender has chosen and that is being decided about. Each table of jobs has a unique index of its own, so two first sends of
-- one id that go to different tables, one delayed and one not, would not meet in any of them, and both would be kept. They meet in the primary key of
-- this table: the second insert of an id waits for the transaction of the first. A row lives no longer than the statement that decides, so no other
-- transaction ever sees one. Vacuum is triggered by the number of dead rows alone, because the table is always empty.
create table {schema}.id_lock (id uuid primary key)
    with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, vacuum_truncate = off);

-- Decides about ids that their senders chose: `known` is null if no job has the id, 'same' if one has that was sent with this kind and to this queue, and
-- says otherwise in what it differs. Nothing else of a job is told, since it may be of another sender. A given id
-- that is known with another kind or queue belongs to another job; its sender is told, because a job that is silently taken for another one is lost.
-- No ids, or null: nothing to decide.
-- If another transaction is sending one of the ids, the function waits until that ends. Ids are locked in their own order, so two calls that overlap
-- do not wait for each other in a circle.
-- A job that an operator moved to another queue is still the one that was sent to the first queue: its option `sentTo` names that.
-- It is volatile, so that the lookups come after the wait and see what was committed meanwhile. In a transaction with an old snapshot they do not:
-- then a job may be kept beside one with the same id that was committed since, in another table.
-- It runs with its owner's rights: a role that may send need not be able to read every table.
-- Each id is looked up alone: `not exists` could be planned as a walk over all ids there are. `offset 0` keeps the lookups from being repeated for each
-- use of their result.
create function {schema}.decide_ids(ids uuid[], kinds text[], queues text[]) returns table (job_id uuid, known text)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $decide$
begin
    if coalesce(cardinality(ids), 0) = 0 then
        return;
    end if;
    insert into {schema}.id_lock select distinct i.id from unnest(ids) as i(id) order by i.id on conflict (id) do nothing;
    delete from {schema}.id_lock d where d.id = any (ids);
    return query
        select a.id,
               case when a.found is null then null
                    when a.kind = a.found[1] and (a.queue = a.found[2] or a.queue = a.found[3]) then 'same'
                    when a.kind = a.found[1] then 'queue'
                    when a.queue = a.found[2] or a.queue = a.found[3] then 'kind'
                    else 'kind and queue'
               end
        from (
            select i.id, i.kind, i.queue,
                   coalesce((select array[t.kind, t.queue, t.options ->> 'sentTo'] from {schema}.job t where t.id = i.id limit 1),
                            (select array[t.kind, t.queue, t.options ->> 'sentTo'] from {schema}.timer_job t where t.id = i.id limit 1),
                            (select array[t.kind, t.queue, t.options ->> 'sentTo'] from {schema}.suspended_job t where t.id = i.id limit 1),
                            (select array[t.kind, t.queue, t.options ->> 'sentTo'] from {schema}.dead_letter_job t where t.id = i.id limit 1),
                            (select array[t.kind, t.queue, t.options ->> 'sentTo'] from {schema}.external_job t where t.id = i.id limit 1)) as found
            from unnest(ids, kinds, queues) as i(id, kind, queue)
            offset 0
        ) a;
end
$decide$;

-- Only roles that may send decide about ids: a mere reader who may call this could keep any id from being stored for as long as its transaction is
-- open, and the submissions behind it.
revoke execute on function {schema}.decide_ids(uuid[], text[], text[]) from public;

-- ==== Nodes and liveness ====
-- Running executors. A node lives as long as monitors see its heartbeats, whatever the clock of a server says
-- (docs/adr/0048-judged-by-observation.md).

-- A row is a node session. Each start of an executor draws a new id at random, so a name that is used again never revives old ownership, and a server
-- that forgot the last ids does not give them out again.
create table {schema}.node (
    id         bigint primary key check (id between 1 and 2147483647),
    name       text not null,
    host       text not null,
    pid        bigint not null,
    -- How long its heartbeats may stay away.
    lease      interval not null check (lease >= interval '1 second'),
    started_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null,
    dead_at    timestamptz,
    broker     text,
    heartbeats bigint not null default 0,
    evicted    boolean not null default false,
    -- They are shown to people, and nothing depends on them.
    serves     jsonb,
    left_alone jsonb,
    failing    jsonb
-- Each heartbeat updates the row: the fillfactor leaves space for its next version on the same page.
) with (fillfactor = 50);

comment on column {schema}.node.expires_at is 'when its lease ends by the clock of this server; shown to people, decides nothing';
comment on column {schema}.node.dead_at is 'declared dead: never revived, its jobs are being released';
comment on column {schema}.node.broker is 'how the node stands with the broker; null = it has none';
comment on column {schema}.node.heartbeats is 'heartbeats so far; a monitor that sees it unchanged for a lease declares the node dead';
comment on column {schema}.node.evicted is 'declared dead by hand';
comment on column {schema}.node.serves is 'the queues with their slots, the kinds and the external queues that it works on';
comment on column {schema}.node.left_alone is 'kinds that it can not run at the moment, and why; null = none';
comment on column {schema}.node.failing is 'its tasks that fail again and again, each with its last error; null = none';

-- Returns the first key of the advisory locks of nodes. It keeps them apart from the locks of other programs and other schemas in this database. The
-- second key is the id of the node.
create function {schema}.node_locks() returns integer
language sql immutable parallel safe
as $$ select hashtext('{schema}.node') $$;

-- Keeps a node from being forgotten until the end of the transaction. Returns its id if it may own jobs, or null if it is unknown or dead. It takes
-- a shared advisory lock, because a lock on the node's row would need a multixact whenever two commits of a node overlap, and a write as well. It is
-- volatile, so that the query comes after the lock and sees what was committed while this waited. In the snapshot of the calling statement, a node
-- could look alive that was declared dead, had its rows released and was forgotten.
-- No role but those that execute jobs can make a claim wait, or keep a dead node from being forgotten. Any role that may connect can take any advisory
-- lock, and pg_locks shows the keys. So a claim never waits for one: if another session has the lock exclusively, it locks the row of the node
-- instead, which needs rights. That does not conflict with heartbeats.
-- In a transaction with an old snapshot such a lock would fail because of heartbeats. Such a one, which is never a claim, waits.
create function {schema}.hold_node(node bigint) returns bigint
language plpgsql volatile
as $$
begin
    if node not between 1 and 2147483647 then
        return null;
    end if;
    if not pg_catalog.pg_try_advisory_xact_lock_shared({schema}.node_locks(), node::integer) then
        if pg_catalog.current_setting('transaction_isolation') = 'read committed' then
            perform from {schema}.node n where n.id = hold_node.node for key share;
        else
            perform pg_catalog.pg_advisory_xact_lock_shared({schema}.node_locks(), node::integer);
        end if;
    end if;
    return (select n.id from {schema}.node n where n.id = hold_node.node and n.dead_at is null);
end
$$;

-- Raises the error for a node that may not claim. It is a function, because a statement cannot raise an error otherwise. The SQLSTATE is known to
-- src/store/postgres/driver_error.rs.
create function {schema}.refuse_node(node bigint) returns bigint
language plpgsql volatile
as $$
begin
    raise exception 'node % is unknown here, or was declared dead', node using errcode = 'JW001';
end
$$;

-- Returns whether a dead node can own nothing more: no transaction holds it, and a later claim finds it dead. It does not wait, and takes no advisory
-- lock: it looks who has it. The locks of roles that could not claim anything, whatever role they
-- change to, mean nothing. A prepared transaction has no session, and counts.
create function {schema}.node_is_idle(node bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (
        select
        from pg_catalog.pg_locks l
        left join pg_catalog.pg_stat_activity a on a.pid = l.pid
        where l.locktype = 'advisory' and l.granted and l.objsubid = 2
          and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
          and l.classid::bigint = {schema}.node_locks()::bigint & 4294967295 and l.objid::bigint = node_is_idle.node
          and l.pid is distinct from pg_backend_pid()
          and (a.usesysid is null or pg_has_role(a.usesysid, (select c.relowner from pg_catalog.pg_class c where c.oid = '{schema}.job'::regclass), 'member')
               or exists (select from pg_catalog.pg_class c cross join lateral aclexplode(c.relacl) p
                          where c.oid = '{schema}.job'::regclass and p.privilege_type = 'UPDATE'
                            and (p.grantee = 0 or pg_has_role(a.usesysid, p.grantee, 'member'))))
    ) then
        return false;
    end if;
    perform from {schema}.node n where n.id = node_is_idle.node for update skip locked;
    return found;
end
$$;

-- A row, the only one, is this installation. It has an id, and its database knows the place for which it was made. A restored or cloned database has all that the original has, and
-- with the same settings of the broker it would take submissions and reports of the original. Nodes look here when they register: where the place
-- found is another one, they ask to be told whether this is a copy or the original that moved (`jobwright adopt`).
--
-- The place is the system identifier of the server, the number of the database and the schema. Standbys and base backups have the same identifier and
-- the same numbers, so a failover and a restore of the whole server need no answer. By default everybody may read the identifier; where that right was
-- taken away, the name of the database counts in its place.
create table {schema}.installation (
    only_one      boolean primary key default true check (only_one),
    id            uuid not null,
    server        bigint,
    database_oid  oid not null,
    database_name text not null,
    schema_name   text not null,
    since         timestamptz not null default clock_timestamp()
);
comment on table {schema}.installation is 'the id of the installation, and the place for which this database was made: `jobwright adopt` changes it';
comment on column {schema}.installation.server is 'the system identifier; null = it could not be read';

do $$
declare
    identifier bigint;
begin
    begin
        select system_identifier into identifier from pg_catalog.pg_control_system();
    exception
        when insufficient_privilege or undefined_function or feature_not_supported then null;
    end;
    insert into {schema}.installation (id, server, database_oid, database_name, schema_name)
    select pg_catalog.gen_random_uuid(), identifier, d.oid, d.datname, n.nspname
    from pg_catalog.pg_database d, pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where d.datname = pg_catalog.current_database() and c.oid = '{schema}.installation'::pg_catalog.regclass;
end
$$;

-- ==== Admission: blocked jobs, permits, unblocks, rules, usage, rates ====
-- These tables decide whether a job may start beside others. A job of an exclusive group, or under a limit, needs permits. A job that lacks one is
-- blocked on that permit's key. Whatever may let blocked jobs start writes an unblock, and an admission pass acts on it (docs/adr/0026-admission.md,
-- docs/adr/0060-a-node-leases-a-group.md). Claims count the limits of queues and kinds themselves (docs/adr/0063-claims-count-limits.md).

-- A row is a rule: what the installation asks of its jobs. The name '*' means each one that has no rule of its own.
create table {schema}.rule (
    scope      text not null check (scope in ('queue', 'kind', 'tenant', 'key', 'group')),
    name       text not null,
    paused     boolean not null default false,
    running    integer check (running >= 0),
    rate       integer check (rate >= 1),
    -- In microseconds.
    period     bigint check (period >= 1000),
    aging      bigint check (aging >= 1000000),
    depth      bigint check (depth >= 0),
    -- How the permits of a limited queue are divided among tenants or kinds.
    shares     jsonb,
    changed_at timestamptz not null default clock_timestamp(),
    primary key (scope, name),
    check ((rate is null) = (period is null))
);

comment on column {schema}.rule.running is 'how many may run at the same time, over all nodes';
comment on column {schema}.rule.rate is 'how many may start within any period (which is in microseconds)';
comment on column {schema}.rule.aging is 'each time that a job of this queue has waited for this many microseconds, it counts as one priority higher';
comment on column {schema}.rule.depth is 'how many jobs may wait in this queue before senders are told that it is full';

-- Returns what a rule of this scope is about, in a job: its queue, kind, tenant, limit key or group. It has no path of its own: then it
-- could not be inlined into the statements. So the operands of its operators are of their own types.
create function {schema}.subject(scope text, queue text, kind text, options jsonb) returns text
language sql immutable
as $subject$
    select case scope when 'queue' then queue when 'kind' then kind when 'tenant' then options ->> 'tenant'::text
                      when 'key' then options ->> 'limit'::text else options ->> 'group'::text end
$subject$;

-- A row is a permit and its holder. The key says what it is a permit of: an exclusive group (g:) or a limit (q:, k:, t:, l:).
-- The holder may be a node: it runs several jobs of a group one after the other (a group run), and releases the group after the last. Such a group
-- lease is like an owned row: a claim makes it, it carries the number of that claim, and it is freed when the node is dead.
create table {schema}.permit (
    job_id  uuid not null,
    key     text not null,
    node    integer,
    version integer,
    primary key (job_id, key),
    check ((node is null) = (version is null))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

comment on column {schema}.permit.job_id is 'the job that holds it; or the handler of one that was cancelled (terminating_handler.holder), or the lease of a node';
comment on column {schema}.permit.node is 'the node whose lease it is, which runs jobs of this group one after the other';
comment on column {schema}.permit.version is 'number of the claim that made or renewed the lease';

-- Serves unknown_terminating.sql, which finds the leases of a node, and lost_terminating.sql, which finds those of dead nodes. Only leases are in it.
create index permit_node on {schema}.permit (node) where node is not null;
-- Serves statements that count the permits of a key or find its holder: admit_usage.sql, admit_candidates.sql and `allowance`. It has another
-- collation than the primary key, which begins with the job. A lookup by key names that collation, and asks for a column that is in no index (ctid).
-- Then the planner cannot take the primary key for it, in which it would read all permits.
create index permit_key on {schema}.permit (key collate "C");

-- A row says that a key may let jobs start, now or at unblock_at: a permit was released, a job came, a rule changed, or a rate will allow more. A key
-- may have several rows. The table is small, because admission passes remove the rows, so it has no index.
create table {schema}.unblock (
    key        text not null,
    unblock_at timestamptz not null default clock_timestamp(),
    -- How many jobs blocked on the key to consider.
    n          integer not null default 1,
    -- Anyone who may send may write one. No key is longer: a share of a limited queue has the names of both (src/store/admission/plan.rs).
    constraint unblock_is_readable check (isfinite(unblock_at) and n >= 0 and octet_length(key) <= 500)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);
-- Nothing tells one row from another that is alike, so the whole row is their identity. That goes for `rate_log` and `history` too.
alter table {schema}.unblock replica identity full;

-- A row says how many jobs started under a rate within a part of its period. Rows are kept for as long as the rule's period reaches back.
create table {schema}.rate_log (
    key text not null,
    -- When the last of them started: all count until that one is over.
    at  timestamptz not null default clock_timestamp(),
    n   integer not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);
alter table {schema}.rate_log replica identity full;

-- Serves admit_usage.sql and `allowance`, which add up the starts of a key within its period, and `log_starts` and admit_apply.sql, which find
-- its latest row.
create index rate_log_key on {schema}.rate_log (key, at);

-- The only row is locked by each admission pass (admit_lock.sql) and each change of a rule: what is decided by counting must not be decided twice at
-- the same time.
create table {schema}.admission (one boolean primary key default true check (one));
insert into {schema}.admission default values;

-- A row says how many jobs a node runs under a limit that its claims count: of a queue (q:) or a kind (k:). The node's claims write it, and no job
-- under such a limit has a permit (docs/adr/0063-claims-count-limits.md).
create table {schema}.usage (
    key     text not null,
    node    integer not null,
    n       integer not null check (n >= 0),
    demand  integer not null check (demand >= 0),
    version integer not null,
    first   integer not null,
    -- When the row was last written. A demand that is older than fifteen seconds is ignored.
    at      timestamptz not null,
    primary key (key, node)
-- Nearly each claim updates its row: the fillfactor leaves space for the next versions on the same page.
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

comment on table {schema}.usage is 'how many jobs each node runs under the limits that claims count: of a queue (q:) or a kind (k:)';
comment on column {schema}.usage.n is 'jobs that this node ran under it at most when it last claimed, with those it claimed then';
comment on column {schema}.usage.demand is 'how many more it would have taken';
comment on column {schema}.usage.version is 'number of that claim';
comment on column {schema}.usage.first is 'number of the first claim that counted: jobs of earlier ones hold permits';

-- A row is a terminating handler: its job was cancelled while it ran. The row of the job is gone at once, but the handler still runs. The group and
-- the permits of the job stay taken until the node reports that the handler has ended, or until the node is dead or retired
-- (docs/adr/0055-terminating-handlers.md).
create table {schema}.terminating_handler (
    holder   uuid primary key default gen_random_uuid(),
    job_id   uuid not null,
    -- The version of the claim, or the token of the hand-out, that the handler runs under.
    version  bigint not null,
    node     bigint,
    until    timestamptz,
    worker   text,
    check ((node is null) = (until is not null))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

comment on table {schema}.terminating_handler is 'handlers that still run although their job was cancelled; each holds the permits of its job';
comment on column {schema}.terminating_handler.holder is 'stands for the job in `permit`, because the same id may be sent again, and then waits like any other job';
comment on column {schema}.terminating_handler.node is 'the node whose handler it is; null = of an external worker';
comment on column {schema}.terminating_handler.until is 'when the lease of that external worker ends';
comment on column {schema}.terminating_handler.worker is 'what that worker calls itself, if it took the job by SQL: it is told of the cancellation, even if the job held nothing';

-- Serves handlers_ended.sql and claimed_terminating.sql, which name claims.
create index terminating_handler_job on {schema}.terminating_handler (job_id, version);
-- Serves external_late.sql, expire_external.sql and maintenance_due.sql. Only handlers of external workers are in it.
create index terminating_handler_until on {schema}.terminating_handler (until) where until is not null;

-- The trigger functions below, and `release_unique`, run with their owner's rights: a role that may send, cancel or complete jobs need not be able to
-- write the engine's tables. So no other role may attach them to a table of its own. A role that could, even a read-only one with a temporary table,
-- would insert jobs and free groups. PostgreSQL requires EXECUTE when a trigger is created and not when it fires, so senders and executors need no
-- grant. The check of the table's schema is the second line of defence, in case EXECUTE was granted on all functions: only a role that may create
-- tables in this schema passes it.

-- Blocks a job of a group on the key of that group, however the job came here: sent, promoted, released, requeued, or by hand-written SQL.
create function {schema}.block_job() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $block$
begin
    if '"' || tg_table_schema || '"' <> '{schema}' then
        raise exception '% is for the tables of {schema}, and not for %', tg_name, tg_relid::regclass using errcode = 'insufficient_privilege';
    end if;
    new.blocked_on := 'g:' || (new.options ->> 'group');
    new.share := '';
    insert into {schema}.unblock (key) values (new.blocked_on);
    return new;
end
$block$;
revoke execute on function {schema}.block_job() from public;

create trigger job_block before insert on {schema}.job for each row
    when (new.options is not null and new.blocked_on is null and not new.admitted and new.options ? 'group')
    execute function {schema}.block_job();

-- Frees what a job held when its row is gone, whatever removed it. A job that only moved keeps its permits: it was handed out, taken back or
-- admitted. An ordered job keeps its group as long as any row of it exists.
create function {schema}.release_permits() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $free$
declare
    kept text;
begin
    if '"' || tg_table_schema || '"' <> '{schema}' then
        raise exception '% is for the tables of {schema}, and not for %', tg_name, tg_relid::regclass using errcode = 'insufficient_privilege';
    end if;
    if exists (select from {schema}.job where id = old.id and admitted)
        or exists (select from {schema}.external_job where id = old.id and admitted) then
        return null;
    end if;
    if old.options ? 'ordered' and (exists (select from {schema}.timer_job where id = old.id)
                                  or exists (select from {schema}.dead_letter_job where id = old.id)
                                  or exists (select from {schema}.suspended_job where id = old.id)
                                  or exists (select from {schema}.job where id = old.id)) then
        kept := 'g:' || (old.options ->> 'group');
    end if;
    with freed as (
        delete from {schema}.permit where job_id = old.id and key is distinct from kept returning key
    )
    insert into {schema}.unblock (key) select key from freed;
    return null;
end
$free$;
revoke execute on function {schema}.release_permits() from public;

-- Frees together what jobs held that end together: the trigger for each row takes as long as everything else that is done for a job. A statement that
-- removes many jobs names them in `jobwright.ended`, a setting for its transaction alone, and then they are looked up once.
create function {schema}.free_ended() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $free$
declare
    ended constant uuid[] := current_setting('jobwright.ended')::uuid[];
begin
    if '"' || tg_table_schema || '"' <> '{schema}' then
        raise exception '% is for the tables of {schema}, and not for %', tg_name, tg_relid::regclass using errcode = 'insufficient_privilege';
    end if;
    -- Some of them may not have ended: the claim was an old one, or the id was sent again. An admitted job keeps all that it holds (key is null
    -- here), and an ordered job keeps its group, in whichever table it is.
    with kept as materialized (
        select id, null::text as key from {schema}.job where id = any (ended) and admitted
        union all
        select id, null from {schema}.external_job where id = any (ended) and admitted
        union all
        select id, 'g:' || (options ->> 'group') from {schema}.job where id = any (ended) and options ? 'ordered'
        union all
        select id, 'g:' || (options ->> 'group') from {schema}.timer_job where id = any (ended) and options ? 'ordered'
        union all
        select id, 'g:' || (options ->> 'group') from {schema}.dead_letter_job where id = any (ended) and options ? 'ordered'
        union all
        select id, 'g:' || (options ->> 'group') from {schema}.suspended_job where id = any (ended) and options ? 'ordered'
    ),
    freed as (
        delete from {schema}.permit
        where job_id = any (ended)
          and not exists (select from kept where kept.id = permit.job_id and (kept.key is null or kept.key = permit.key))
        returning key
    )
    insert into {schema}.unblock (key, n) select key, count(*) from freed group by key;
    return null;
end
$free$;
revoke execute on function {schema}.free_ended() from public;

-- Fires row by row, but not in a statement that names its jobs in `jobwright.ended`, except for ordered jobs: such a job may hold its group after its
-- row is gone, and while it is blocked, and only the row says so.
create trigger job_free after delete on {schema}.job for each row
    when (old.options ? 'ordered' or old.admitted and coalesce(current_setting('jobwright.ended', true), '') = '')
    execute function {schema}.release_permits();
-- Fires once for each statement that names its jobs in `jobwright.ended`.
create trigger job_free_ended after delete on {schema}.job for each statement
    when (coalesce(current_setting('jobwright.ended', true), '') <> '')
    execute function {schema}.free_ended();
-- In the other tables only an ordered job holds anything: its group.
create trigger timer_job_free after delete on {schema}.timer_job for each row
    when (old.options ? 'ordered') execute function {schema}.release_permits();
create trigger suspended_job_free after delete on {schema}.suspended_job for each row
    when (old.options ? 'ordered') execute function {schema}.release_permits();
create trigger dead_letter_job_free after delete on {schema}.dead_letter_job for each row
    when (old.options ? 'ordered') execute function {schema}.release_permits();

-- Transfers what a cancelled job holds to its terminating handler, before the job's row is gone and the trigger there frees it. The insert is skipped
-- if its node is dead and no longer answers for anything, or if the job holds nothing, except for a worker by SQL, whose next call is told why.
-- It is a trigger, and not a part of the statement that cancels: its update of `permit` comes after the job's row is locked, and sees what an
-- admission pass gave the job while the statement waited for that lock. In the snapshot of the statement the job could have no permits yet.
create function {schema}.transfer_permits() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $keep$
begin
    if '"' || tg_table_schema || '"' <> '{schema}' then
        raise exception '% is for the tables of {schema}, and not for %', tg_name, tg_relid::regclass using errcode = 'insufficient_privilege';
    end if;
    if new.node is not null and not exists (select from {schema}.node n where n.id = new.node and n.dead_at is null) then
        return null;
    end if;
    update {schema}.permit set job_id = new.holder where job_id = new.job_id;
    if not found and new.worker is null then
        return null;
    end if;
    return new;
end
$keep$;
revoke execute on function {schema}.transfer_permits() from public;

create trigger terminating_handler_permits before insert on {schema}.terminating_handler for each row execute function {schema}.transfer_permits();

-- Frees what a terminating handler held when its row is gone, whatever removed it.
create function {schema}.end_handler() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $end$
begin
    if '"' || tg_table_schema || '"' <> '{schema}' then
        raise exception '% is for the tables of {schema}, and not for %', tg_name, tg_relid::regclass using errcode = 'insufficient_privilege';
    end if;
    with freed as (
        delete from {schema}.permit where job_id = old.holder returning key
    )
    insert into {schema}.unblock (key) select key from freed;
    return null;
end
$end$;
revoke execute on function {schema}.end_handler() from public;

create trigger terminating_handler_ended after delete on {schema}.terminating_handler for each row execute function {schema}.end_handler();

-- Returns whether a rule is one that claims can count themselves. Shares are weighed by admission passes. Under the rule of all kinds, each kind of a
-- program would need a claim of its own. While there is any other limit, admission passes admit whatever is limited: they find its jobs by a scan
-- from the start of each queue, where jobs that no pass admits would be in the way.
create function {schema}.is_simple(scope text, name text, shares jsonb) returns boolean
language sql immutable parallel safe
as $simple$ select shares is null and (scope = 'queue' or scope = 'kind' and name <> '*') $simple$;

-- A row is the lock of a limit that claims count: of a hash, which two limits may share. It is never removed. Any role that may connect can take any
-- advisory lock, and a lock on a row needs rights: no role but those that execute jobs can keep jobs under a limit from starting. A locked row leaves
-- no dead version behind.
create table {schema}.limit_lock (lock bigint primary key);

-- Locks keys that are counted under, so that no two transactions count under one of them at the same time: what is decided by counting must not be
-- decided twice. The locks are numbers (src/store/postgres/counting.rs), taken in their order.
create function {schema}.lock_limits(locks bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $lock$
declare
    wanted bigint;
begin
    for wanted in select distinct l from unnest(locks) l order by l loop
        loop
            perform from {schema}.limit_lock k where k.lock = wanted for update;
            exit when found;
            insert into {schema}.limit_lock (lock) values (wanted) on conflict (lock) do nothing;
        end loop;
    end loop;
end
$lock$;

-- For claim_counted.sql. Returns one row:
--   n          how many jobs the claim may start that no admission pass has admitted, at most `most`
--   wait       if a rate allows none: after how many microseconds it will
--   unblocked  whether a key was unblocked
--   limited    the keys under which the jobs are to be counted, and
--   runs       what the node runs of each already (`mine`)
--   rated      the keys under which the starts are to be logged, and
--   parts      the part of the period (microseconds) within which starts of each are counted together
--   anew       those of the keys (by their place) that the node is to count from zero: the jobs that it ran before this limit was set hold
--              permits (permit_running.sql). Null if nothing was counted: another transaction held a lock for too long, or a later claim of the
--              node has counted
--   simple     whether claims count now, and not admission passes
--   passed     whether blocked jobs got nothing by chance
--   spare      how many jobs other nodes that want some could start under a limit of which this claim reports ends, before it takes any; null = none
--   permits    whether permits take up a part of a limit: no node tells the others when it gives them back
-- It is a function, because each of its statements sees what was committed while the one before it waited, and a single statement does not.
create function {schema}.allowance(node bigint, claim integer, locks bigint[], keys text[], scopes text[], names text[], mine integer[], most bigint)
returns table (n bigint, wait bigint, unblocked boolean, limited text[], runs integer[], rated text[], parts bigint[], anew integer[], simple boolean, passed boolean, spare bigint, permits boolean)
language plpgsql volatile rows 1
set search_path = pg_catalog, pg_temp
-- A claim counts within milliseconds. An admission pass may hold a lock for longer, if its process is frozen.
set lock_timeout = '200ms'
as $allowance$
#variable_conflict use_column
declare
    asked record;
    rule record;
    used record;
    first timestamptz;
    started bigint;
    free bigint;
    granted bigint;
    here constant bigint := allowance.node;
    this constant integer := allowance.claim;
    best bigint := allowance.most;
    pause bigint;
    opens boolean := false;
    missed boolean := false;
    held boolean := false;
    taken bigint;
    left_over bigint;
    under text[] := '{}';
    counts integer[] := '{}';
    timed text[] := '{}';
    times bigint[] := '{}';
    news integer[] := '{}';
begin
    begin
        perform {schema}.lock_limits(allowance.locks);
    exception when lock_not_available then
        return query select 0::bigint, null::bigint, false, under, counts, timed, times, null::integer[], true, false, null::bigint, true;
        return;
    end;
    if exists (select from {schema}.rule r where (r.running is not null or r.rate is not null) and not {schema}.is_simple(r.scope, r.name, r.shares)) then
        -- Admission passes admit whatever is limited.
        return query select best, null::bigint, false, under, counts, timed, times, news, false, false, null::bigint, false;
        return;
    end if;
    for asked in
        select a.key, a.scope, a.name, a.mine, a.place::integer
        from unnest(allowance.keys, allowance.scopes, allowance.names, allowance.mine) with ordinality as a(key, scope, name, mine, place)
    loop
        select r.running, r.rate, r.period into rule
        from {schema}.rule r
        where r.scope = asked.scope and r.name in (asked.name, '*')
        order by r.name = '*'
        limit 1;
        continue when not found;
        if rule.running is not null then
            select coalesce(sum(u.n) filter (where u.node <> here), 0) as others,
                   count(*) filter (where u.node <> here and (u.n > 0 or u.demand > 0 and u.at > clock_timestamp() - interval '15 seconds')) as parties,
                   coalesce(bool_or(u.node <> here and u.demand > 0 and u.at > clock_timestamp() - interval '15 seconds'), false) as wanted,
                   coalesce(bool_or(u.node = here and u.n > asked.mine), false) as ended,
                   coalesce(bool_or(u.node = here), false) as known,
                   coalesce(bool_or(u.node = here and (u.version::bigint - this + 2147483648) % 2147483648 between 1 and 1073741823), false) as late
            into used
            from {schema}.usage u
            where u.key = asked.key;
            if used.late then
                -- A later claim of the node has counted. No process waits for the answer to this one, and its numbers are out of date.
                return query select 0::bigint, null::bigint, false, '{}'::text[], '{}'::integer[], '{}'::text[], '{}'::bigint[], null::integer[], true, false, null::bigint, true;
                return;
            end if;
            if not used.known then
                asked.mine := 0;
                news := news || asked.place;
            end if;
            taken := (select count(s.ctid) from {schema}.permit s where s.key collate "C" = asked.key);
            held := held or taken > 0;
            free := rule.running - asked.mine - used.others - taken;
            if used.wanted and used.ended then
                left_over := greatest(left_over, free);
            end if;
            if used.wanted then
                -- Other nodes want some too: each gets the same.
                free := least(free, (rule.running + used.parties) / (used.parties + 1) - asked.mine);
            end if;
            free := greatest(free, 0);
            if free > 0 and exists (select from {schema}.job j where j.blocked_on = asked.key and j.lock_owner is null) then
                -- Jobs are blocked on this key (they have a group, or another limit), and only an admission pass sees them: half of what is free is
                -- for them, and chance decides about an odd one. A claim that takes none leaves them all.
                granted := case when best = 0 then free else (free + (random() < 0.5)::integer) / 2 end;
                missed := missed or granted = 0;
                held := held or granted > 0;
                free := free - granted;
                if granted > 0 then
                    insert into {schema}.unblock (key, n)
                    select asked.key, granted
                    where not exists (select from {schema}.unblock o where o.key = asked.key and o.unblock_at <= clock_timestamp());
                    opens := true;
                end if;
            end if;
            best := least(best, free);
            under := under || asked.key;
            counts := counts || asked.mine;
        end if;
        if rule.rate is not null then
            select coalesce(sum(l.n), 0), min(l.at) into started, first
            from {schema}.rate_log l
            where l.key = asked.key and l.at > clock_timestamp() - rule.period * interval '1 microsecond';
            free := greatest(rule.rate - started, 0);
            if free = 0 then
                pause := greatest(coalesce(pause, 0),
                                  (extract(epoch from first - clock_timestamp()) * 1000000)::bigint + rule.period);
            end if;
            best := least(best, free);
            timed := timed || asked.key;
            -- A key has about a thousand rows, whatever its rate (store/admission/plan.rs).
            times := times || greatest(rule.period / 1000, 1);
        end if;
    end loop;
    return query select best, pause, opens, under, counts, timed, times, news, true, missed,
                        left_over, held;
end
$allowance$;

-- Logs starts under rates after they were made, for claim_counted.sql. They count from the time that is written, which is not before any of them. The
-- locks of these keys are held, so no other transaction writes their rows.
create function {schema}.log_starts(keys text[], parts bigint[], starts integer) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $log$
declare
    asked record;
    moment timestamptz;
begin
    if starts > 0 then
        for asked in select u.key, u.part from unnest(keys, parts) as u(key, part) loop
            moment := clock_timestamp();
            update {schema}.rate_log l
            set n = l.n + starts, at = moment
            where l.ctid = (
                select e.ctid
                from {schema}.rate_log e
                where e.key = asked.key
                  and e.at >= 'epoch'::timestamptz + (extract(epoch from moment) * 1000000)::bigint / asked.part * asked.part * interval '1 microsecond'
                  and e.n < 1000000000
                order by e.at desc
                limit 1
            );
            if not found then
                insert into {schema}.rate_log (key, at, n) values (asked.key, moment, starts);
            end if;
        end loop;
    end if;
    return starts;
end
$log$;

-- ==== Unique keys ====
-- The table says which unique job holds which key (docs/adr/0031-unique.md, docs/adr/0061-keys-are-taken-and-given-back-together.md). Whether a key
-- is held is decided when a sender asks for it, by where its job is at that moment. So a key that is left over blocks nothing.

-- A row is a key that a unique job took. A key whose job is in no table is free for any sender.
create table {schema}.unique_key (
    key        bytea primary key,
    job_id     uuid not null,
    hold       text not null check (hold in ('waiting', 'done', 'period')),
    -- When the period ends, if it is held for one.
    expires_at timestamptz,
    -- A key that was taken for a period while the clock was ahead is held for as long as was asked for, and no longer
    -- (docs/adr/0054-a-clock-that-was-ahead.md).
    taken_at   timestamptz,
    check ((hold = 'period') = (expires_at is not null)),
    -- Anyone who may send unique jobs may write one.
    constraint unique_key_is_readable check (isfinite(expires_at) and isfinite(taken_at) and octet_length(key) <= 64)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

comment on column {schema}.unique_key.key is 'SHA-256 of what must be unique: kind, maybe queue, and a key or payload';
comment on column {schema}.unique_key.hold is 'while that job waits, until it is gone, or for a period';
comment on column {schema}.unique_key.taken_at is 'when it was taken, if it is held for a period';

-- Serves expire_jobs.sql and maintenance_due.sql, which find the periods that are over, and repair_uniques.sql. There is no index on job_id: a job's
-- options say what its key is (`key_of`), and the key says which job holds it.
create index unique_key_expires on {schema}.unique_key (expires_at) where expires_at is not null;

-- Sets taken_at. It is a trigger, because keys are taken in three places, and the time must mean the same in all of them.
create function {schema}.stamp_unique() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $stamp$
begin
    new.taken_at := case when new.expires_at is not null then clock_timestamp() end;
    return new;
end
$stamp$;

create trigger unique_key_insert before insert on {schema}.unique_key for each row
    when (new.expires_at is not null) execute function {schema}.stamp_unique();
create trigger unique_key_update before update of job_id on {schema}.unique_key for each row
    when (new.expires_at is not null or old.expires_at is not null) execute function {schema}.stamp_unique();

-- Returns the key that a job asked for. Null if it asked for none, or if hand-written options hold something that is no key: that must not keep the
-- row from being removed. As `subject`, it has no path of its own.
create function {schema}.key_of(options jsonb) returns bytea
language sql immutable parallel safe
as $key$
    select case when options -> 'unique'::text ->> 'key'::text ~ '^([0-9a-f]{2})+$'
                then pg_catalog.decode(options -> 'unique'::text ->> 'key'::text, 'hex') end
$key$;

-- Releases the key of a job when its last row is gone, row by row. The key is only deleted to tidy up: without a job it is free anyway. So a key that
-- a sender is taking over at this moment is left to that sender, and the end of a job never waits for a sender. (`security definer`: see
-- `block_job`.)
create function {schema}.release_unique() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $release$
begin
    if '"' || tg_table_schema || '"' <> '{schema}' then
        raise exception '% is for the tables of {schema}, and not for %', tg_name, tg_relid::regclass using errcode = 'insufficient_privilege';
    end if;
    delete from {schema}.unique_key
    where ctid = any (array(
        select ctid
        from {schema}.unique_key
        where key = {schema}.key_of(old.options) and job_id = old.id and hold <> 'period'
          -- The job may only have moved.
          and not exists (select from {schema}.job where id = old.id)
          and not exists (select from {schema}.timer_job where id = old.id)
          and not exists (select from {schema}.external_job where id = old.id)
          and not exists (select from {schema}.dead_letter_job where id = old.id)
          and not exists (select from {schema}.suspended_job where id = old.id)
        for update skip locked
    ));
    return null;
end
$release$;
revoke execute on function {schema}.release_unique() from public;

-- A statement that releases the keys of its jobs itself (complete_keyed.sql) says so in `jobwright.released`, a setting for its transaction alone.
create trigger job_unique after delete on {schema}.job for each row
    when (old.options ? 'unique' and coalesce(current_setting('jobwright.released', true), '') = '')
    execute function {schema}.release_unique();
create trigger timer_job_unique after delete on {schema}.timer_job for each row
    when (old.options ? 'unique') execute function {schema}.release_unique();
create trigger suspended_job_unique after delete on {schema}.suspended_job for each row
    when (old.options ? 'unique') execute function {schema}.release_unique();
create trigger dead_letter_job_unique after delete on {schema}.dead_letter_job for each row
    when (old.options ? 'unique') execute function {schema}.release_unique();

-- Whether the job that a key names waits (and can still be replaced), and whether it goes on otherwise. Neither, if it did not ask for this key: then the
-- key is left over from an earlier job with the same id. A sender can't read options, so the function has its owner's rights. It is in plpgsql because
-- that keeps its plan.
create function {schema}.key_holder(taken bytea, holder uuid, out waits boolean, out goes_on boolean)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $holder$
begin
    waits := exists (select from {schema}.job t where t.id = holder and t.lock_owner is null and {schema}.key_of(t.options) = taken)
             or exists (select from {schema}.timer_job t where t.id = holder and {schema}.key_of(t.options) = taken)
             or exists (select from {schema}.suspended_job t where t.id = holder and {schema}.key_of(t.options) = taken);
    goes_on := exists (select from {schema}.job t where t.id = holder and {schema}.key_of(t.options) = taken)
               or exists (select from {schema}.external_job t where t.id = holder and {schema}.key_of(t.options) = taken)
               or exists (select from {schema}.dead_letter_job t where t.id = holder and {schema}.key_of(t.options) = taken);
end
$holder$;
revoke execute on function {schema}.key_holder(bytea, uuid) from public;

-- Removes the job that holds a key, for the job that replaces it. Returns whether it did. A sender has the right to do that and no other right to remove
-- jobs, so the function has its owner's. It removes no job that is claimed, suspended or a dead letter, or that does not hold the key. The settings, which
-- any role can set, would keep the triggers from releasing what the removed job holds.
create function {schema}.remove_replaced(taken bytea, holder uuid) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $remove$
declare
    ended constant text := coalesce(current_setting('jobwright.ended', true), '');
    released constant text := coalesce(current_setting('jobwright.released', true), '');
    is_removed boolean;
begin
    perform from {schema}.unique_key k where k.key = taken and k.job_id = holder for update;
    if not found then
        return false;
    end if;
    perform set_config('jobwright.ended', '', true), set_config('jobwright.released', '', true);
    delete from {schema}.job t where t.id = holder and t.lock_owner is null and {schema}.key_of(t.options) = taken;
    is_removed := found;
    if not is_removed then
        delete from {schema}.timer_job t where t.id = holder and {schema}.key_of(t.options) = taken;
        is_removed := found;
    end if;
    perform set_config('jobwright.ended', ended, true), set_config('jobwright.released', released, true);
    return is_removed;
end
$remove$;
revoke execute on function {schema}.remove_replaced(bytea, uuid) from public;

-- Takes keys one by one, for jobs that the same transaction is about to insert. Returns a verdict for each: free (the job has it now), replaced (the
-- same, and the job that held it is gone), kept (another job holds it). Keys are taken in their own order, so two calls that ask for many never wait
-- for each other in a circle. A call that asks for a key that another transaction has just taken waits for the end of that transaction. No key is
-- given twice. Each step is a statement of its own, because it must see what was committed while the one before it waited.
create function {schema}.try_unique(keys bytea[], ids uuid[], holds text[], periods int8[], conflicts text[])
returns table (n integer, verdict text, holder uuid)
language plpgsql
set search_path = pg_catalog, pg_temp
as $try$
#variable_conflict use_column
declare
    ask record;
    held record;
    is_held boolean;
begin
    for ask in
        select u.key, u.id, u.hold, clock_timestamp() + u.period * interval '1 microsecond' as until, u.conflict, u.n::int as n
        from unnest(keys, ids, holds, periods, conflicts) with ordinality as u(key, id, hold, period, conflict, n)
        order by u.key
    loop
        loop
            insert into {schema}.unique_key as k (key, job_id, hold, expires_at) values (ask.key, ask.id, ask.hold, ask.until)
            on conflict (key) do nothing;
            if found then
                return query select ask.n, 'free'::text, ask.id;
                exit;
            end if;
            select k.job_id, k.hold, k.expires_at, h.waits, h.goes_on
            into held
            from {schema}.unique_key k cross join lateral {schema}.key_holder(k.key, k.job_id) h
            where k.key = ask.key;
            -- The key was released meanwhile: ask again.
            continue when not found;
            is_held := case held.hold when 'period' then held.expires_at > clock_timestamp()
                                      when 'waiting' then held.waits
                                      else held.waits or held.goes_on end;
            if not is_held then
                update {schema}.unique_key k set job_id = ask.id, hold = ask.hold, expires_at = ask.until
                where k.key = ask.key and k.job_id = held.job_id and k.expires_at is not distinct from held.expires_at;
                -- Another transaction took it first: ask again.
                continue when not found;
                return query select ask.n, 'free'::text, ask.id;
                exit;
            end if;
            if ask.conflict = 'reject' and held.job_id <> ask.id then
                raise exception 'unique' using errcode = 'JWUNQ', detail = held.job_id::text, hint = ask.n::text;
            end if;
            if ask.conflict = 'replace' and held.waits and held.job_id <> ask.id then
                perform from {schema}.unique_key k where k.key = ask.key and k.job_id = held.job_id for update;
                continue when not found;
                if {schema}.remove_replaced(ask.key, held.job_id) then
                    insert into {schema}.unique_key as k (key, job_id, hold, expires_at) values (ask.key, ask.id, ask.hold, ask.until)
                    on conflict (key) do update set job_id = excluded.job_id, hold = excluded.hold, expires_at = excluded.expires_at;
                    return query select ask.n, 'replaced'::text, held.job_id;
                    exit;
                end if;
                -- The job was just claimed. A key that is held only while it waits is free now: ask again. A suspended job waits on, and is kept.
                continue when held.hold = 'waiting'
                    and not exists (select from {schema}.suspended_job t where t.id = held.job_id);
            end if;
            return query select ask.n, 'kept'::text, held.job_id;
            exit;
        end loop;
    end loop;
end
$try$;

-- Takes keys as `try_unique` does, and returns only those that were not free. If one of them is to be rejected, none is taken, and that one is the
-- only answer. Many keys are taken with a single insert if none of them is held. The insert goes in the order of the keys, so whatever it waits for
-- comes after all that it has. If one of the keys is held, the insert is undone before the keys are asked for one by one: nothing that it took is
-- held while that begins with the first key again. So two calls that ask for many, in whichever way, never wait for each other in a circle.
-- The lookup of the first keys before it spares senders that mostly repeat themselves the rows that would be undone. To look up all of them would
-- take half as long as to insert them.
create function {schema}.take_unique(keys bytea[], ids uuid[], holds text[], periods int8[], conflicts text[])
returns table (n integer, verdict text, holder uuid)
language plpgsql
set search_path = pg_catalog, pg_temp
as $take$
#variable_conflict use_column
declare
    other text;
    place text;
begin
    -- A subtransaction costs more than a few keys.
    if cardinality(keys) > 8 and not exists (select from {schema}.unique_key k where k.key = any (keys[1:16])) then
        begin
            insert into {schema}.unique_key (key, job_id, hold, expires_at)
            select u.key, u.id, u.hold, clock_timestamp() + u.period * interval '1 microsecond'
            from unnest(keys, ids, holds, periods) as u(key, id, hold, period)
            order by u.key;
            return;
        exception when unique_violation then
            null;
        end;
    end if;
    if not 'reject' = any (conflicts) then
        return query select * from {schema}.try_unique(keys, ids, holds, periods, conflicts) t where t.verdict <> 'free';
        return;
    end if;
    -- If one of them is to be rejected, none is taken, and that one is the only answer.
    begin
        return query select * from {schema}.try_unique(keys, ids, holds, periods, conflicts) t where t.verdict <> 'free';
    exception when sqlstate 'JWUNQ' then
        get stacked diagnostics other = pg_exception_detail, place = pg_exception_hint;
        return query select place::integer, 'conflict'::text, other::uuid;
    end;
end
$take$;

-- ==== External workers ====
-- Jobs that were handed out to programs that are no nodes: through the broker (docs/adr/0021-external-workers-have-a-table-of-their-own.md), or by SQL
-- (docs/adr/0080-work-by-sql.md).

-- A row is a hand-out. No node's heartbeat answers for it, so it has a lease of its own.
create table {schema}.external_job (
    seq          bigint not null,
    -- 53 random bits.
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
    errors       jsonb,
    options      jsonb,
    -- As in `job`.
    admitted     boolean not null default false,
    worker       text
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

comment on table {schema}.external_job is 'handed out to a program that is no node; of version the token is made that its report must name';
comment on column {schema}.external_job.worker is 'what the program that took it by SQL calls itself; null = it was handed out through the broker';
comment on column {schema}.external_job.lease_until is 'when its lease ends and it waits again, by the clock of this server';
comment on column {schema}.external_job.lease is 'the length of its lease, as handed out';

-- Serves every statement that names jobs by id, reports above all.
alter table {schema}.external_job add constraint external_job_id primary key (id);
-- Serves external_late.sql, expire_external.sql and maintenance_due.sql, which find the leases that have run out. An extension of a lease is
-- therefore no HOT update, but it is rare.
create index external_job_lease on {schema}.external_job (lease_until);
-- Serves the pages of list.sql.
create index external_job_seq on {schema}.external_job (seq);

-- Permits and unique keys of a hand-out are released as those of a row of `job`.
create trigger external_job_free after delete on {schema}.external_job for each row
    when (old.admitted) execute function {schema}.release_permits();
-- The key of a job that was taken by SQL is left over, and free all the same: in the transaction of a worker, which may be long, senders of the same key would wait
-- for it. Maintenance removes it.
create trigger external_job_unique after delete on {schema}.external_job for each row
    when (old.options ? 'unique' and old.worker is null) execute function {schema}.release_unique();

-- The only row is the key of the tokens that external workers send back with their reports: 32 random bytes
-- (docs/adr/0058-tokens-of-hand-outs.md). It has a table of its own, because only executors may read it.
create table {schema}.report_key (
    only_one boolean primary key default true check (only_one),
    key      bytea not null check (octet_length(key) = 32)
);
-- 488 bits of the server's strong random source.
insert into {schema}.report_key (key)
select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- ==== Submissions through the broker ====
-- What third-party producers submitted through the broker, remembered for as long as they may send it again.

-- A row is a submission. It outlives its job.
create table {schema}.submission (
    id          uuid primary key,
    digest      bytea not null,
    received_at timestamptz not null default clock_timestamp()
);

comment on column {schema}.submission.digest is 'SHA-256 of the message: tells a repeated one from another under the same id';

-- Serves prune_submissions.sql, which removes the oldest.
create index submission_received on {schema}.submission (received_at);

-- ==== Schedules ====
-- Repeating jobs: when, and what to send (docs/adr/0034-schedules.md).

-- A row is a schedule. Nodes compute its next occurrence and write it in the same transaction as the jobs of the last one.
create table {schema}.schedule (
    name         text primary key,
    version      bigint not null default 0,
    -- The cron line or interval, and the time zone that it is read in.
    schedule     text not null,
    zone         text not null,
    -- What to do about occurrences that were missed: once, skip or all.
    misfire      text not null,
    -- Whether an occurrence fires although the job of the last one has not ended: allow or forbid.
    overlap      text not null,
    -- When it ends, and after how many jobs.
    until_at     timestamptz,
    times        bigint,
    anchor_at    timestamptz not null,
    paused       boolean not null default false,
    next_at      timestamptz,
    -- The last occurrence that fired, and its job.
    last_at      timestamptz,
    last_job     uuid,
    fired        bigint not null default 0,
    created_at   timestamptz not null default clock_timestamp(),
    -- What to send, as in `job`.
    kind         text not null,
    queue        text not null,
    priority     smallint not null,
    max_attempts integer not null,
    payload      jsonb,
    body         bytea,
    content_type text,
    headers      jsonb,
    options      jsonb,
    constraint schedule_has_one_content check ((payload is null) <> (body is null))
);

comment on column {schema}.schedule.version is 'raised by each change, named by each change';
comment on column {schema}.schedule.anchor_at is 'intervals without a start of their own count from here';
comment on column {schema}.schedule.next_at is 'the next occurrence, by the clock of this server; null = there is none any more';
comment on column {schema}.schedule.fired is 'occurrences that sent a job';

-- Serves schedule_next.sql, schedule_due.sql and maintenance_due.sql: while nothing is due, they read its first entry and no more.
create index schedule_due on {schema}.schedule (next_at) where not paused and next_at is not null;

-- ==== History, results, progress, audit ====
-- What is remembered of jobs that ended, their results, and how far running ones have got (docs/adr/0037-history-progress-results.md). These three
-- tables stay empty, and cost nothing, unless they are asked for. The audit says what operators did (docs/adr/0033-steering-and-cancellation.md).

-- A row is the end of an attempt, or of a job. Rows are only appended and pruned, never updated.
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
alter table {schema}.history replica identity full;

comment on column {schema}.history.outcome is 'done; failed, lost (to be tried again); dead, expired, cancelled, deleted';
comment on column {schema}.history.node is 'the node that ran it; 0 = an external worker, null = it did not run';

-- Serves the pages of history.sql, newest first, and prune_history.sql, which removes the oldest.
create index history_ended on {schema}.history (ended_at, seq);
-- Serves history.sql of one job.
create index history_job on {schema}.history (job_id);

-- A row is what a handler returned. It is committed with the end of its job.
create table {schema}.result (
    job_id     uuid primary key,
    kind       text not null,
    payload    jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null
);

-- Serves prune_results.sql, which removes those that have expired.
create index result_expires on {schema}.result (expires_at);

-- A row says how far a job has got, and from where its next attempt goes on (the checkpoint). It is written while the job runs, outside the
-- transaction of its handler. No trigger removes it with its job: that would cost all jobs, and few have any (prune_progress.sql).
create table {schema}.progress (
    job_id     uuid primary key,
    percent    smallint check (percent between 0 and 100),
    note       text,
    checkpoint jsonb,
    at         timestamptz not null default clock_timestamp()
) with (fillfactor = 70);

-- A row is an action of an operator, written in the transaction of what it did. Only the owner and executors that are configured to (`history.audit`)
-- remove rows.
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

-- Serves prune_audit.sql, which removes the oldest.
create index audit_at on {schema}.audit (at);

-- ==== Shared cursors ====
-- How far the processes that drain a queue together have advanced, so that none of them walks over what the others took
-- (docs/adr/0040-where-a-scan-starts.md). A sequence is the one place in PostgreSQL where all sessions see a change at once, and that leaves
-- nothing behind to be cleaned up, whatever snapshots are held.

-- There are sixteen, so that each queue with a backlog likely has one to itself. src/store/postgres/shared_cursor.rs says which queue uses which, and
-- what the value means. The values are hints: no value, not even a lost one, is wrong.
create sequence {schema}.shared_cursor_0 as bigint minvalue 0;
create sequence {schema}.shared_cursor_1 as bigint minvalue 0;
create sequence {schema}.shared_cursor_2 as bigint minvalue 0;
create sequence {schema}.shared_cursor_3 as bigint minvalue 0;
create sequence {schema}.shared_cursor_4 as bigint minvalue 0;
create sequence {schema}.shared_cursor_5 as bigint minvalue 0;
create sequence {schema}.shared_cursor_6 as bigint minvalue 0;
create sequence {schema}.shared_cursor_7 as bigint minvalue 0;
create sequence {schema}.shared_cursor_8 as bigint minvalue 0;
create sequence {schema}.shared_cursor_9 as bigint minvalue 0;
create sequence {schema}.shared_cursor_10 as bigint minvalue 0;
create sequence {schema}.shared_cursor_11 as bigint minvalue 0;
create sequence {schema}.shared_cursor_12 as bigint minvalue 0;
create sequence {schema}.shared_cursor_13 as bigint minvalue 0;
create sequence {schema}.shared_cursor_14 as bigint minvalue 0;
create sequence {schema}.shared_cursor_15 as bigint minvalue 0;

-- ==== Sending by SQL ====
-- Functions for triggers, psql and programs in any language. docs/operations.md has the rights that a sender needs.

-- Sends a job in the caller's transaction and returns its id.
-- It sends no NOTIFY, which would serialise the commits of the whole database. Executors find the job at their next poll, or at once if the caller
-- calls `wake` after its commit.
-- It checks what the library checks. It never writes out, as text, a payload whose numbers alone are larger than a payload may be: that took
-- gigabytes before it was refused.
-- The content is `payload`, or else `body` in the format that `content_type` names.
-- A job whose `id` is given is sent once: while a job of that id exists in any state, nothing is sent. If that job has another kind or queue, it is
-- an error (`decide_ids`).
-- A unique key is held until the job is gone, or as `unique_hold` says. While another job of this kind holds it, nothing is sent, and the id of that
-- job is returned; `unique_conflict` says what else to do. `unique_digest` is a key as the library computes it, from a payload for example.
-- The text of `retry` is that of the library's `RetryPolicy`. Numbers are as long here as the library can read: options that it can't read keep a job
-- from running.
create function {schema}.send(
    kind            text,
    payload         jsonb,
    queue           text default 'default',
    priority        integer default 0,
    due_at          timestamptz default now(),
    exclusive_group text default null,
    unique_key      text default null,
    max_attempts    integer default null,
    headers         jsonb default '{}',
    ttl             interval default null,
    tenant          text default null,
    limit_key       text default null,
    id              uuid default null,
    ordered         boolean default false,
    retry           text default null,
    body            bytea default null,
    content_type    text default null,
    unique_digest   bytea default null,
    unique_hold     text default 'done',
    unique_period   interval default null,
    unique_conflict text default 'keep',
    max_payload     integer default 1048576
) returns uuid
language plpgsql
set search_path = pg_catalog, pg_temp
as $send$
declare
    moment constant timestamptz := clock_timestamp();
    -- UUIDv7 (RFC 9562): 48 bits of milliseconds, then random, with version and variant set.
    job_id constant uuid := coalesce(send.id, encode(
        set_byte(set_byte(
            substring(int8send((extract(epoch from moment) * 1000)::bigint) from 3)
                || substring(uuid_send(gen_random_uuid()) from 7),
            6, (get_byte(uuid_send(gen_random_uuid()), 0) & 15) | 112),
            8, (get_byte(uuid_send(gen_random_uuid()), 0) & 63) | 128), 'hex')::uuid);
    attempts constant integer := coalesce(send.max_attempts, 10);
    -- As for every other argument that may be left out, null means the default.
    due constant timestamptz := coalesce(send.due_at, moment);
    -- The longest time from now that the library takes, in days and in microseconds.
    longest constant interval := '36600 days';
    longest_us constant int8 := 3162240000000000;
    a_delay constant text := '(?:(?=[0-9])(?:[0-9]{1,6}d ?)?(?:[0-9]{1,8}h ?)?(?:[0-9]{1,9}m ?)?(?:[0-9]{1,11}(?:[.][0-9]{1,9})?s)?'
        || E'|[0-9]{1,9}(?:[.][0-9]{1,6})?(?:m|u|\\u00b5)s|[0-9]{1,9}ns|PT(?=[0-9])(?:[0-9]{1,8}H)?(?:[0-9]{1,9}M)?(?:[0-9]{1,11}(?:[.][0-9]{1,9})?S)?)';
    known text;
    digest bytea := unique_digest;
    period_us int8;
    taken record;
    number jsonb;
    header record;
    digits bigint := 0;
    -- In microseconds, as the library counts them: a month has 30 days. A value that is out of range is refused below.
    lives constant int8 := case when ttl is not null then extract(epoch from least(greatest(ttl, interval '0'), longest + interval '1 day')) * 1000000 end;
    -- Options that are not asked for are left out; a plain job has none at all.
    job_options jsonb := nullif(jsonb_strip_nulls(jsonb_build_object(
        'group', exclusive_group, 'ordered', case when ordered then true end, 'tenant', tenant, 'limit', limit_key, 'ttl', lives, 'retry', retry,
        'expires', (extract(epoch from moment) * 1000000)::int8 + lives)), '{}');
begin
    if kind is null or kind = '' or octet_length(kind) > 100 or kind ~ '[[:cntrl:]]' or kind <> btrim(kind) then
        raise exception 'jobwright.send: the kind % is empty, longer than 100 bytes, or has control characters or outer blanks', quote_nullable(regexp_replace(left(kind, 100), '[[:cntrl:]]', '?', 'g'))
            using errcode = 'invalid_parameter_value';
    end if;
    if queue is null or queue = '' or octet_length(queue) > 100 or queue ~ '[[:cntrl:]]' or queue <> btrim(queue) then
        raise exception 'jobwright.send: the queue % is empty, longer than 100 bytes, or has control characters or outer blanks', quote_nullable(regexp_replace(left(queue, 100), '[[:cntrl:]]', '?', 'g'))
            using errcode = 'invalid_parameter_value';
    end if;
    if max_payload is null or max_payload < 1 then
        raise exception 'jobwright.send: max_payload is %; use 1 byte or more', coalesce(max_payload::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if payload is null and body is null then
        raise exception 'jobwright.send: the payload is null; send ''null''::jsonb if that is meant, or a body with its content_type'
            using errcode = 'invalid_parameter_value';
    end if;
    if payload is not null and body is not null then
        raise exception 'jobwright.send: the job has a payload and a body; a job has one of them, and the payload of one with a body is null'
            using errcode = 'invalid_parameter_value';
    end if;
    if (body is null) <> (content_type is null) then
        raise exception 'jobwright.send: a body and its content_type are given together, and one of them is null'
            using errcode = 'invalid_parameter_value';
    end if;
    if content_type is not null and (content_type = '' or octet_length(content_type) > 255 or content_type ~ '[[:cntrl:]]') then
        raise exception 'jobwright.send: the content_type % is empty, longer than 255 bytes, or has control characters; use a media type such as text/plain', quote_nullable(regexp_replace(left(content_type, 100), '[[:cntrl:]]', '?', 'g'))
            using errcode = 'invalid_parameter_value';
    end if;
    -- A number of a few bytes may have 131,000 digits, and a payload of them more digits than the server has memory. All other values are about as
    -- long in text as they are stored.
    for number in
        select n from jsonb_array_elements(jsonb_path_query_array(payload, 'strict $.** ? (@.type() == "number")')) n
    loop
        digits := digits + octet_length(number::text);
        if digits > max_payload then
            raise exception 'jobwright.send: the numbers of the payload have more than % digits: send them as strings', max_payload
                using errcode = 'invalid_parameter_value';
        end if;
    end loop;
    if coalesce(octet_length(body), octet_length(payload::text)) > max_payload then
        raise exception 'jobwright.send: the payload has % bytes, % is the limit (max_payload): store it elsewhere and send a reference', coalesce(octet_length(body), octet_length(payload::text)), max_payload
            using errcode = 'invalid_parameter_value';
    end if;
    if priority is null or priority not between -32767 and 32767 then
        raise exception 'jobwright.send: the priority is %; use -32767 to 32767', coalesce(priority::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if attempts not between 1 and 1000000000 then
        raise exception 'jobwright.send: max_attempts is %; use 1 to 1000000000', attempts
            using errcode = 'invalid_parameter_value';
    end if;
    if due > moment + longest then
        raise exception 'jobwright.send: due_at is %; it can''t be more than 100 years ahead', due
            using errcode = 'invalid_parameter_value';
    end if;
    if headers is null or jsonb_typeof(headers) <> 'object' then
        raise exception 'jobwright.send: headers must be a JSON object whose values are strings'
            using errcode = 'invalid_parameter_value';
    end if;
    if headers <> '{}' then
        -- Counted before they are looked at: there may be a million.
        if (select count(*) from (select from jsonb_object_keys(headers) limit 65) h) > 64 then
            raise exception 'jobwright.send: the job has more than 64 headers; put what they say into the payload'
                using errcode = 'invalid_parameter_value';
        end if;
        select h.key, h.value into header from jsonb_each(headers) h where jsonb_typeof(h.value) <> 'string' limit 1;
        if found then
            raise exception 'jobwright.send: headers must be a JSON object whose values are strings, and that of % is none', quote_literal(left(header.key, 100))
                using errcode = 'invalid_parameter_value';
        end if;
        select h.key, octet_length(h.value) as bytes into header
        from jsonb_each_text(headers) h
        where h.key = '' or octet_length(h.key) > 100 or h.key ~ '[[:cntrl:]]' or h.key <> btrim(h.key) or octet_length(h.value) > 4096
        limit 1;
        if found and header.bytes > 4096 then
            raise exception 'jobwright.send: the value of header % has % bytes; 4096 is the most, put it into the payload', quote_literal(left(header.key, 100)), header.bytes
                using errcode = 'invalid_parameter_value';
        elsif found then
            raise exception 'jobwright.send: the header name % is empty, longer than 100 bytes, or has control characters or outer blanks', quote_literal(left(header.key, 100))
                using errcode = 'invalid_parameter_value';
        end if;
    end if;
    if exclusive_group is not null and (exclusive_group = '' or octet_length(exclusive_group) > 200 or exclusive_group ~ '[[:cntrl:]]') then
        raise exception 'jobwright.send: the exclusive_group % is empty, longer than 200 bytes, or has control characters', quote_nullable(regexp_replace(left(exclusive_group, 100), '[[:cntrl:]]', '?', 'g'))
            using errcode = 'invalid_parameter_value';
    end if;
    if ordered is null or ordered and exclusive_group is null then
        raise exception 'jobwright.send: ordered is %; it is true or false, and true only with an exclusive_group', coalesce(ordered::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if tenant is not null and (tenant = '' or octet_length(tenant) > 200 or tenant ~ '[[:cntrl:]]' or tenant <> btrim(tenant)) then
        raise exception 'jobwright.send: the tenant % is empty, longer than 200 bytes, or has control characters or outer blanks', quote_nullable(regexp_replace(left(tenant, 100), '[[:cntrl:]]', '?', 'g'))
            using errcode = 'invalid_parameter_value';
    end if;
    if limit_key is not null and (limit_key = '' or octet_length(limit_key) > 200 or limit_key ~ '[[:cntrl:]]' or limit_key <> btrim(limit_key)) then
        raise exception 'jobwright.send: the limit_key % is empty, longer than 200 bytes, or has control characters or outer blanks', quote_nullable(regexp_replace(left(limit_key, 100), '[[:cntrl:]]', '?', 'g'))
            using errcode = 'invalid_parameter_value';
    end if;
    if ttl is not null and lives not between 1000 and longest_us then
        raise exception 'jobwright.send: the ttl is %; use 1 millisecond to 100 years', ttl
            using errcode = 'invalid_parameter_value';
    end if;
    -- The caller may have computed due_at from now(), the beginning of its transaction.
    if ttl is not null and due >= moment + ttl then
        raise exception 'jobwright.send: the job would never run: it is due at % and lives for %; make the ttl longer than the delay', due, ttl
            using errcode = 'invalid_parameter_value';
    end if;
    if retry is not null and retry !~ ('^(?:exponential[(] *' || a_delay || ' *, *[1-9][0-9]{0,250}[0-9]{0,57}(?:[.][0-9]{1,250})? *, *' || a_delay || ' *[)]|fixed[(] *' || a_delay || ' *[)]|'
                 || a_delay || '(?: *, *' || a_delay || ')*)$') then
        raise exception 'jobwright.send: retry is %; use exponential(2s, 2, 1h), fixed(30s) or a list such as PT1M,PT5M,PT1H', quote_literal(regexp_replace(left(retry, 100), '[[:cntrl:]]', '?', 'g'))
            using errcode = 'invalid_parameter_value';
    end if;
    if unique_key is not null then
        if unique_key = '' or octet_length(unique_key) > 200 or unique_key ~ '[[:cntrl:]]' then
            raise exception 'jobwright.send: the unique_key % is empty, longer than 200 bytes, or has control characters', quote_nullable(regexp_replace(left(unique_key, 100), '[[:cntrl:]]', '?', 'g'))
                using errcode = 'invalid_parameter_value';
        end if;
        if unique_digest is not null then
            raise exception 'jobwright.send: the job has a unique_key and a unique_digest; use one of them'
                using errcode = 'invalid_parameter_value';
        end if;
        -- The same digest as the library's, so that jobs sent in either way are unique together.
        select sha256(string_agg(int8send(octet_length(part)::int8) || part, ''::bytea order by n)) into digest
        from unnest(array[convert_to('jobwright unique 1', 'UTF8'), convert_to('key', 'UTF8'), convert_to(send.kind, 'UTF8'), ''::bytea,
                          convert_to(unique_key, 'UTF8')]) with ordinality as parts(part, n);
    end if;
    if octet_length(digest) <> 32 then
        raise exception 'jobwright.send: the unique_digest has % bytes; it is a SHA-256, which has 32', octet_length(digest)
            using errcode = 'invalid_parameter_value';
    end if;
    if unique_hold is null or unique_hold not in ('waiting', 'done', 'period') or (unique_hold = 'period') <> (unique_period is not null) then
        raise exception 'jobwright.send: unique_hold is % and unique_period is %; use waiting, done, or period with a unique_period', quote_nullable(left(unique_hold, 20)), coalesce(unique_period::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if unique_conflict is null or unique_conflict not in ('keep', 'replace', 'reject') then
        raise exception 'jobwright.send: unique_conflict is %; use keep, replace or reject', quote_nullable(left(unique_conflict, 20))
            using errcode = 'invalid_parameter_value';
    end if;
    if digest is null and (unique_hold, unique_conflict) <> ('done', 'keep') then
        raise exception 'jobwright.send: unique_hold and unique_conflict say how a key is held, and the job has none; give it a unique_key'
            using errcode = 'invalid_parameter_value';
    end if;
    if unique_period is not null then
        period_us := extract(epoch from least(greatest(unique_period, interval '0'), longest + interval '1 day')) * 1000000;
        if period_us not between 1000 and longest_us then
            raise exception 'jobwright.send: the unique_period is %; use 1 millisecond to 100 years', unique_period
                using errcode = 'invalid_parameter_value';
        end if;
    end if;

    -- Before the key is asked for: a job that exists may hold it, and must not be replaced by itself.
    if send.id is not null then
        select d.known into known from {schema}.decide_ids(array[send.id], array[send.kind], array[send.queue]) d;
        if known = 'same' then
            return send.id;
        elsif known is not null then
            raise exception 'jobwright.send: the id % is that of another job, which was sent before with another %: nothing was written; if that is the same work, it needs no second one, and otherwise a new id sends this one', send.id, replace(known, 'and ', 'and another ')
                using errcode = 'unique_violation';
        end if;
    end if;
    if digest is not null then
        select t.verdict, t.holder into taken
        from {schema}.take_unique(array[digest], array[job_id], array[unique_hold], array[period_us], array[unique_conflict]) t
        where t.verdict in ('kept', 'conflict');
        if found and taken.verdict = 'conflict' then
            raise exception 'jobwright.send: the job must be unique, and job % holds its key: nothing was written; wait until that one is gone, delete it, or send with the unique_conflict keep or replace', taken.holder
                using errcode = 'unique_violation';
        elsif found then
            return taken.holder;
        end if;
        job_options := coalesce(job_options, '{}') || jsonb_build_object('unique', jsonb_strip_nulls(jsonb_build_object(
            'key', encode(digest, 'hex'), 'hold', unique_hold, 'period', period_us, 'conflict', unique_conflict)));
    end if;

    -- Nothing keeps an id that the library made from being given here at the same time. Then the first job counts.
    if due <= moment then
        insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers, created_at, options)
        values (job_id, send.kind, send.queue, -send.priority, attempts, send.payload, send.body, send.content_type, nullif(send.headers, '{}'), moment,
                job_options)
        on conflict do nothing;
    else
        insert into {schema}.timer_job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers, created_at, options, due_at)
        values (job_id, send.kind, send.queue, -send.priority, attempts, send.payload, send.body, send.content_type, nullif(send.headers, '{}'), moment,
                job_options, due)
        on conflict do nothing;
    end if;
    return job_id;
end
$send$;

comment on function {schema}.send is 'sends a job in the caller''s transaction and returns its id';

-- Notifies executors at once that a queue has work, and that jobs may wait for admission or for their time. Call it after the commit, in a transaction
-- of its own.
create function {schema}.wake(queue text default 'default') returns void
language sql
set search_path = pg_catalog, pg_temp
as $wake$ select pg_notify('{channel}', hint) from unnest(array['q' || queue, 'g', 't']) as hint $wake$;

comment on function {schema}.wake is 'notifies executors that a queue has work; call it after the commit';

-- ==== Views for people ====
-- For people, reports, and the statements of operators that look at all states.

-- A row is a job, in whichever table it is, with its state as a word. No priority is above 32767: a rank that has no
-- priority was written by hand, and must not keep all jobs from being listed.
create view {schema}.jobs as
    select id, seq, case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end as state, kind, queue,
           -greatest(rank, (-32767)::int2) as priority, attempt, max_attempts, version::bigint, created_at, null::timestamptz as due_at, lock_owner::bigint as owner,
           claimed_at, null::timestamptz as dead_at, null::text as reason, payload, body, content_type, headers, errors,
           options, blocked_on
    from {schema}.job
    union all
    select id, seq, 'external', kind, queue, -greatest(rank, (-32767)::int2), attempt, max_attempts, version, created_at, null, null, null,
           null, null, payload, body, content_type, headers, errors, options, null
    from {schema}.external_job
    union all
    select id, seq, 'timer', kind, queue, -greatest(rank, (-32767)::int2), attempt, max_attempts, version, created_at, due_at, null, null,
           null, null, payload, body, content_type, headers, errors, options, null
    from {schema}.timer_job
    union all
    select id, seq, 'suspended', kind, queue, -greatest(rank, (-32767)::int2), attempt, max_attempts, version, created_at, due_at, null, null,
           null, null, payload, body, content_type, headers, errors, options, null
    from {schema}.suspended_job
    union all
    select id, seq, 'dead', kind, queue, -greatest(rank, (-32767)::int2), attempt, max_attempts, version, created_at, null, null, null,
           dead_at, reason, payload, body, content_type, headers, errors, options, null
    from {schema}.dead_letter_job;
