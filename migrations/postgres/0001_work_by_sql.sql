
-- ==== Work by SQL ====
-- Functions by which programs in any language take jobs and end them in transactions of their own (docs/sql.md). They are public: names, arguments,
-- columns and SQLSTATEs change as docs/stability.md says. A job that was taken is a row of `external_job`, as if it had been handed out through the
-- broker (docs/adr/0080-work-by-sql.md).
--
-- The public functions run with their owner's rights, because a worker has rights on no table: a role may take from the queues that `worker_queue`
-- names, and end what it was handed, which its token shows. No role may call them unless that was granted. Each of them sets the search path. They also
-- empty the settings by which statements of the engine tell the triggers what they release themselves, because any role can set those. No text in them
-- has a backslash outside E'': what it means would depend on a setting of the session.
--
-- They plan as the engine's own sessions do, without compilation and with indexes alone: the compiler of PostgreSQL took 38 ms for a `take` of 1 ms, and a
-- plan that was made while tables were small must not stay when they have grown.
--
-- None of them waits for another worker: rows that others have locked are passed over, with one exception. Two ends of one job are
-- decided by the lock of its row, and the second waits for the transaction of the first.

-- A row allows a role, and its members, to take jobs from a queue; '*' = from all. Roles that may remove jobs anyway (the owner, executors) need none.
create table {schema}.worker_queue (
    role_name regrole not null,
    queue     text not null check (queue <> ''),
    primary key (role_name, queue)
);

comment on table {schema}.worker_queue is 'the queues from which a role may take jobs by SQL; * = all';

-- A row says that a worker has taken from a queue, or tried to, and which kinds. People see it (`jobwright status`, `why`, `doctor`), and admission passes
-- admit limited jobs of these queues and kinds. Several processes may have one name, so a name may have several rows. A constraint would make the first call
-- of one wait for that of another.
create table {schema}.worker (
    name     text not null,
    queue    text not null,
    kinds    text[],
    since    timestamptz not null default clock_timestamp(),
    heard_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
alter table {schema}.worker replica identity full;

-- Serves `note_worker`.
create index worker_name on {schema}.worker (name, queue);

comment on table {schema}.worker is 'programs that take jobs by SQL, as they call themselves';
comment on column {schema}.worker.heard_at is 'when it last asked for jobs, to within five seconds';

-- Returns the token of a hand-out: only its taker and whoever has the key can make it (docs/adr/0058-tokens-of-hand-outs.md). What is hashed has a fixed length.
-- It has no search path of its own, because then it could not be inlined, and a call took longer than the hash. It is called by functions that have one.
create function {schema}.token_of(secret bytea, id uuid, version bigint) returns uuid
language sql immutable parallel safe
as $token$
    select encode(substring(sha256(secret || convert_to('taken by SQL', 'UTF8') || uuid_send(id) || int8send(version)) from 1 for 16), 'hex')::uuid
$token$;
revoke execute on function {schema}.token_of(bytea, uuid, bigint) from public;

-- Returns whether the caller may take from a queue. In a function with its owner's rights, only these settings say who called.
create function {schema}.may_take(queue text) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $may$
declare
    caller constant name := coalesce(nullif(current_setting('role', true), 'none'), session_user)::name;
begin
    return has_table_privilege(caller, '{schema}.job'::regclass, 'delete')
        or exists (
            select
            from {schema}.worker_queue w
            join pg_catalog.pg_roles r on r.oid = w.role_name
            where w.queue in (may_take.queue, '*') and pg_has_role(caller, r.oid, 'usage')
        );
end
$may$;
revoke execute on function {schema}.may_take(text) from public;

-- Notes that a worker asks for jobs, under the usual isolation level. A row that is locked is left as it is.
create function {schema}.note_worker(worker text, queue text, kinds text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $note$
begin
    -- Elsewhere it could make the caller's transaction fail, because another worker of this name has been here since.
    if current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;
    if exists (
        select from {schema}.worker w
        where w.name = note_worker.worker and w.queue = note_worker.queue and w.kinds is not distinct from note_worker.kinds
          and w.heard_at > clock_timestamp() - interval '5 seconds' and w.heard_at <= clock_timestamp()
    ) then
        return;
    end if;
    if not exists (select from {schema}.worker w where w.name = note_worker.worker and w.queue = note_worker.queue) then
        insert into {schema}.worker (name, queue, kinds) values (note_worker.worker, note_worker.queue, note_worker.kinds);
        delete from {schema}.worker
        where ctid = any (array(
            select w.ctid from {schema}.worker w where w.heard_at < clock_timestamp() - interval '1 day' for update skip locked
        ));
        return;
    end if;
    update {schema}.worker w
    set heard_at = clock_timestamp(), kinds = note_worker.kinds
    where w.ctid = any (array(
        select o.ctid from {schema}.worker o where o.name = note_worker.worker and o.queue = note_worker.queue limit 1 for update skip locked
    ));
end
$note$;
revoke execute on function {schema}.note_worker(text, text, text[]) from public;

-- Takes up to `n` of the best waiting jobs of a queue, each for as long as `lease`, and returns them, best first. A job that is not ended in that time, nor
-- kept by `extend`, waits again, and its attempt is spent. Commit before the work begins: until then no other session sees that
-- the jobs are taken, and if the transaction is rolled back, they are not.
-- `worker` is a name for people. `kinds`: only jobs of these; null = of any. `content_types`: formats that the caller can read besides JSON ('*' = all);
-- null = all that were not encoded by the library (docs/payloads.md).
-- It picks rows as `hand_out` does, and keeps to what holds there: paused queues, rules, times to live.
create function {schema}.take(
    queue         text,
    worker        text,
    n             integer default 1,
    lease         interval default '1 minute',
    kinds         text[] default null,
    content_types text[] default null
) returns table (
    id uuid, token uuid, kind text, payload jsonb, body bytea, content_type text, headers jsonb, attempt integer, max_attempts integer,
    exclusive_group text, tenant text, priority integer, created_at timestamptz, lease_until timestamptz, last_error text, checkpoint jsonb
)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $take$
#variable_conflict use_column
declare
    secret bytea;
    -- A month has no length of its own.
    length constant interval := extract(epoch from take.lease) * interval '1 second';
    -- 52 random bits, and never 0.
    number constant bigint := ('x' || left(replace(gen_random_uuid()::text, '-', ''), 12) || right(gen_random_uuid()::text, 1))::bit(52)::bigint | 1;
    -- As in `remove_replaced`. Clauses of the function could set these only if its owner were a superuser.
    ended constant text := coalesce(current_setting('jobwright.ended', true), '');
    released constant text := coalesce(current_setting('jobwright.released', true), '');
begin
    if take.queue is null or take.queue = '' or octet_length(take.queue) > 100 then
        raise exception 'jobwright.take: the queue % is null, empty or longer than 100 bytes', quote_nullable(left(take.queue, 100))
            using errcode = 'invalid_parameter_value';
    end if;
    if take.worker is null or take.worker = '' or octet_length(take.worker) > 200 or take.worker ~ '[[:cntrl:]]' then
        raise exception 'jobwright.take: the worker % is null, empty, longer than 200 bytes, or has control characters; give the name under which status shows this program', quote_nullable(regexp_replace(left(take.worker, 100), '[[:cntrl:]]', '?', 'g'))
            using errcode = 'invalid_parameter_value';
    end if;
    if take.n is null or take.n not between 1 and 1000 then
        raise exception 'jobwright.take: n is %; use 1 to 1000', coalesce(take.n::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if cardinality(take.kinds) > 0 and (cardinality(take.kinds) > 1000 or exists (select from unnest(take.kinds) k where octet_length(k) > 100)) then
        raise exception 'jobwright.take: there are more than 1000 kinds, or one is longer than 100 bytes; leave kinds out to take any'
            using errcode = 'invalid_parameter_value';
    end if;
    if take.lease is null or extract(epoch from take.lease) not between 1 and 86400 then
        raise exception 'jobwright.take: the lease is %; use 1 second to 1 day', coalesce(take.lease::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if not {schema}.may_take(take.queue) then
        raise exception 'jobwright.take: the role % may not take jobs from the queue %: `jobwright grants worker` prints what it needs', quote_ident(coalesce(nullif(current_setting('role', true), 'none'), session_user)), quote_literal(take.queue)
            using errcode = 'insufficient_privilege';
    end if;
    perform {schema}.note_worker(take.worker, take.queue, take.kinds);
    select k.key into secret from {schema}.report_key k;
    perform set_config('jobwright.ended', '', true), set_config('jobwright.released', '', true);
    return query
        with best as materialized (
            delete from {schema}.job
            where ctid = any (array(
                select c.ctid
                from {schema}.job c
                where c.queue = take.queue and c.lock_owner is null and c.blocked_on is null
                  and (take.kinds is null or c.kind = any (take.kinds))
                  and case when c.content_type is null then true
                           when take.content_types is null then c.content_type <> 'application/jose' and not starts_with(c.content_type, 'application/gzip;of=')
                           else c.content_type = any (take.content_types) or '*' = any (take.content_types) end
                  and (select not exists (
                      select from {schema}.rule r
                      where r.scope = 'queue' and r.paused
                        and r.name in (take.queue, '*')
                  ))
                  and (
                      (c.options is null or (c.options ->> 'expires'::text)::int8 > (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
                          or (c.options ? 'expires'::text) is not true)
                      and (
                          (select not exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null))
                          or not exists (
                              select from {schema}.rule r
                              where (r.paused or not c.admitted and (r.running is not null or r.rate is not null)) and (
                                  {schema}.subject(r.scope, c.queue, c.kind, c.options) = r.name
                                  or r.name = '*' and {schema}.subject(r.scope, c.queue, c.kind, c.options) is not null
                                     and (r.paused or not exists (select from {schema}.rule own
                                                     where own.scope = r.scope and own.name = {schema}.subject(r.scope, c.queue, c.kind, c.options)))
                              )
                          )
                      )
                  )
                order by c.rank, c.seq
                limit take.n
                for update skip locked
            ))
            returning *
        ),
        taken as (
            insert into {schema}.external_job as e (seq, created_at, id, max_attempts, rank, kind, queue, payload, body, content_type, headers,
                                                    version, lease_until, lease, attempt, errors, options, admitted, worker)
            select b.seq, b.created_at, b.id, b.max_attempts, b.rank, b.kind, b.queue, b.payload, b.body, b.content_type, b.headers,
                   number, clock_timestamp() + length, length, b.attempt + 1, b.errors, b.options, b.admitted, take.worker
            from best b
            on conflict (id) do nothing
            returning e.*
        )
        select t.id, {schema}.token_of(secret, t.id, t.version), t.kind, t.payload, t.body, t.content_type, coalesce(t.headers, '{}'), t.attempt, t.max_attempts,
               t.options ->> 'group', t.options ->> 'tenant', -t.rank::integer, t.created_at, t.lease_until, t.errors -> -1 ->> 'error',
               (select p.checkpoint from {schema}.progress p where p.job_id = t.id)
        from taken t
        order by t.rank, t.seq;
    perform set_config('jobwright.ended', ended, true), set_config('jobwright.released', released, true);
end
$take$;

revoke execute on function {schema}.take(text, text, integer, interval, text[], text[]) from public;
comment on function {schema}.take is 'takes waiting jobs of a queue, each with a lease and a token; docs/sql.md';

-- Refuses a list that is not as long as that of the jobs.
create function {schema}.check_list(called text, what text, list anyarray, ids uuid[]) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $check$
begin
    if list is not null and (cardinality(list) <> cardinality(ids) or array_ndims(list) > 1 or array_lower(list, 1) <> 1) then
        raise exception 'jobwright.%: % is a plain list with an element for each job (there are %), null where there is none', called, what, cardinality(ids)
            using errcode = 'invalid_parameter_value';
    end if;
end
$check$;
revoke execute on function {schema}.check_list(text, text, anyarray, uuid[]) from public;

-- Refuses arguments that name no hand-outs.
create function {schema}.check_tokens(called text, ids uuid[], tokens uuid[]) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $check$
begin
    if array_ndims(ids) > 1 or array_ndims(tokens) > 1 or array_lower(ids, 1) <> 1 or array_lower(tokens, 1) <> 1 then
        raise exception 'jobwright.%: the arrays of ids and tokens are plain lists that begin at 1', called using errcode = 'invalid_parameter_value';
    end if;
    if ids is null or tokens is null or array_position(ids, null) is not null or array_position(tokens, null) is not null
        or cardinality(ids) <> cardinality(tokens) then
        raise exception 'jobwright.%: the id or the token of a job is missing; each job is named by both, as `take` returned them', called
            using errcode = 'invalid_parameter_value';
    end if;
    if cardinality(ids) > 1000 then
        raise exception 'jobwright.%: % jobs are too many for one call; 1000 are the most', called, cardinality(ids)
            using errcode = 'invalid_parameter_value';
    end if;
    if cardinality(ids) > 1 and (select count(distinct i) from unnest(ids) i) < cardinality(ids) then
        raise exception 'jobwright.%: a job is named twice; name each once', called using errcode = 'invalid_parameter_value';
    end if;
end
$check$;
revoke execute on function {schema}.check_tokens(text, uuid[], uuid[]) from public;

-- Looks why some of these hand-outs were not ended or renewed (`known`: those that were), and raises the error of the first if it is `strict`. If not, and
-- with `ends`, what cancelled ones held becomes free: their worker has ended.
create function {schema}.refuse_late(called text, ids uuid[], tokens uuid[], known uuid[], ends boolean, strict boolean) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $late$
declare
    secret constant bytea := (select k.key from {schema}.report_key k);
    late uuid;
    is_cancelled boolean;
begin
    -- Drivers pass null for what is not given.
    if coalesce(strict, true) then
        select a.id,
               exists (select from {schema}.terminating_handler t
                       where t.job_id = a.id and t.worker is not null and {schema}.token_of(secret, t.job_id, t.version) = a.token)
        into late, is_cancelled
        from unnest(ids, tokens) with ordinality as a(id, token, place)
        where not a.id = any (known)
        order by a.place
        limit 1;
        if late is null then
            return;
        elsif is_cancelled then
            raise exception 'jobwright.%: the job % was cancelled: roll back, end its work, and call `release` with strict => false, so that what it held becomes free', called, late
                using errcode = 'JW003';
        elsif exists (select from {schema}.external_job e where e.id = any (tokens)) then
            raise exception 'jobwright.%: the id and the token of a job are swapped: the id comes first', called using errcode = 'JW002';
        else
            raise exception 'jobwright.%: the job % is not handed out under this token: its lease ended, or it was ended before; roll back, because it may run elsewhere', called, late
                using errcode = 'JW002';
        end if;
    elsif ends then
        delete from {schema}.terminating_handler t
        where t.job_id = any (ids) and t.worker is not null
          and {schema}.token_of(secret, t.job_id, t.version) = tokens[array_position(ids, t.job_id)];
    end if;
end
$late$;
revoke execute on function {schema}.refuse_late(text, uuid[], uuid[], uuid[], boolean, boolean) from public;

-- Passes the groups of these hand-outs on: the next job of each is admitted with the permit of the one that ends, so no admission pass stands between
-- them, and the group is never free in between (docs/adr/0059-the-end-of-a-job-claims-the-next-of-its-group.md has the same for nodes). It is called
-- before the hand-outs are removed, in the same transaction. Only where nothing has to be decided: no rule limits or pauses jobs, and the best job
-- that is blocked on the group has not expired and is not locked. Otherwise the group becomes free with the row, and an admission pass follows. An ordered
-- job keeps its group.
create function {schema}.admit_next(ids uuid[], tokens uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $next$
declare
    secret constant bytea := (select k.key from {schema}.report_key k);
begin
    if not exists (select from {schema}.external_job e where e.id = any (ids) and e.admitted and e.options ? 'group')
        or exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null) then
        return;
    end if;
    with own as materialized (
        select e.id, 'g:' || (e.options ->> 'group') as key
        from {schema}.external_job e
        where e.id = any (ids) and e.worker is not null and e.admitted and e.options ? 'group' and not e.options ? 'ordered'
          and {schema}.token_of(secret, e.id, e.version) = tokens[array_position(ids, e.id)]
        for update
    ),
    turn as materialized (
        select o.key, s.place
        from own o
        cross join lateral (select p.ctid as place from {schema}.permit p where p.job_id = o.id and p.key = o.key and p.node is null limit 1 for update) s
    ),
    best as materialized (
        select t.place, b.tid, b.id
        from turn t
        cross join lateral (
            select j.ctid as tid, j.id, j.options
            from {schema}.job j
            where j.blocked_on = t.key and j.share = '' and j.lock_owner is null
            order by j.rank, j.seq
            limit 1
        ) b
        where (b.options ->> 'expires')::int8 > (extract(epoch from statement_timestamp()) * 1000000)::int8 or (b.options ? 'expires') is not true
    ),
    locked as materialized (
        select j.ctid as tid from {schema}.job j where j.ctid = any (array(select b.tid from best b)) and j.lock_owner is null for update skip locked
    ),
    admitted as (
        update {schema}.job j set admitted = true, blocked_on = null, share = null where j.ctid = any (array(select l.tid from locked l))
    )
    update {schema}.permit p
    set job_id = (select b.id from best b where b.place = p.ctid)
    where p.ctid = any (array(select b.place from best b where b.tid in (select l.tid from locked l)));
end
$next$;
revoke execute on function {schema}.admit_next(uuid[], uuid[]) from public;

-- Ends jobs that are done, in the caller's transaction: they are gone if it commits, and handed out as before if it does not. Returns the ids of those that
-- were still handed out under these tokens. If one was not, that is the error JW002 (or JW003, if it was cancelled), or with `strict => false` it is left out.
-- A result goes to whoever asked for a reply (the header replyTo), and for as long as `keep` it can be read by the job's id.
create function {schema}.done_many(
    ids     uuid[],
    tokens  uuid[],
    results jsonb[] default null,
    keep    interval default null,
    strict  boolean default true
) returns setof uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $done$
declare
    secret constant bytea := (select k.key from {schema}.report_key k);
    remembers constant boolean := coalesce(current_setting('jobwright.history', true), '') = 'all';
    known uuid[];
begin
    perform {schema}.check_tokens('done', ids, tokens);
    perform {schema}.check_list('done', 'results', results, ids);
    if extract(epoch from keep) not between 1 and 3162240000 then
        raise exception 'jobwright.done: keep is %; use 1 second to 100 years', keep using errcode = 'invalid_parameter_value';
    end if;
    perform {schema}.admit_next(ids, tokens);
    with gone as (
        delete from {schema}.external_job e
        where e.id = any (ids) and e.worker is not null
          and {schema}.token_of(secret, e.id, e.version) = tokens[array_position(ids, e.id)]
        returning e.id, e.seq, e.kind, e.queue, e.attempt, e.created_at, e.handed_at, e.headers, e.options, results[array_position(ids, e.id)] as result
    ),
    replies as (
        insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, headers)
        select gen_random_uuid(), g.kind, 'jobwright.reply', 0, 10, coalesce(g.result, 'null'),
               jsonb_strip_nulls(jsonb_build_object('replyTo', g.headers ->> 'replyTo', 'correlationId', g.headers ->> 'correlationId', 'jobId', g.id))
        from gone g
        where g.headers ? 'replyTo'
    ),
    kept as (
        insert into {schema}.result (job_id, kind, payload, expires_at)
        select g.id, g.kind, g.result, clock_timestamp() + extract(epoch from keep) * interval '1 second'
        from gone g
        where keep is not null and g.result is not null
        on conflict (job_id) do update
        set kind = excluded.kind, payload = excluded.payload, created_at = excluded.created_at, expires_at = excluded.expires_at
    ),
    -- Or a job that is sent again under this id would go on from there.
    forgotten as (
        delete from {schema}.progress p where p.job_id = any (array(select g.id from gone g))
    ),
    remembered as (
        insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
        select g.id, g.seq, g.kind, g.queue, 'done', g.attempt, g.created_at, g.handed_at, 0, g.options ->> 'tenant' from gone g where remembers
    )
    select coalesce(array_agg(g.id), '{}') into known from gone g;
    if cardinality(known) < cardinality(ids) then
        perform {schema}.refuse_late('done', ids, tokens, known, true, strict);
    end if;
    return query select unnest(known);
end
$done$;

revoke execute on function {schema}.done_many(uuid[], uuid[], jsonb[], interval, boolean) from public;
comment on function {schema}.done_many is 'ends jobs that are done, in the caller''s transaction; docs/sql.md';

create function {schema}.done(id uuid, token uuid, result jsonb default null, keep interval default null, strict boolean default true) returns boolean
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $done$ select exists (select {schema}.done_many(array[id], array[token], array[result], keep, strict)) $done$;

revoke execute on function {schema}.done(uuid, uuid, jsonb, interval, boolean) from public;
comment on function {schema}.done is 'ends a job that is done, in the caller''s transaction; docs/sql.md';

-- Returns how long a job waits after a failure, by the text of its retry policy; without one, the library's default policy holds. A text that can't be read
-- counts as none.
create function {schema}.retry_delay(policy text, failures integer) returns interval
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $retry$
declare
    is_exponential constant boolean := coalesce(policy, 'exponential') ~ '^ *exponential';
    -- PostgreSQL reads the same durations, apart from these units.
    parts constant text[] := string_to_array(
        regexp_replace(replace(substring(coalesce(policy, 'exponential(2s, 2, 1h)') from '[(]?([^()]*)[)]?$'), E'\u00b5s', 'us'), '[0-9.]+ns', '0s'), ',');
    seconds float8;
begin
    if is_exponential and cardinality(parts) = 3 then
        seconds := extract(epoch from parts[1]::interval);
        if seconds > 0 then
            seconds := exp(least(ln(seconds) + greatest(failures - 1, 0) * ln(greatest(parts[2]::float8, 1)),
                                 ln(greatest(extract(epoch from parts[3]::interval), 0.000001)))) * (0.8 + 0.4 * random());
        end if;
    elsif not is_exponential and cardinality(parts) > 0 then
        seconds := extract(epoch from parts[least(greatest(failures, 1), cardinality(parts))]::interval);
    else
        return {schema}.retry_delay(null, failures);
    end if;
    return least(seconds, 31536000) * interval '1 second';
exception when data_exception then
    return case when policy is null then interval '2 seconds' else {schema}.retry_delay(null, failures) end;
end
$retry$;
revoke execute on function {schema}.retry_delay(text, integer) from public;

-- Returns the beginning of a text, of at most so many bytes.
create function {schema}.clipped(what text, most integer) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $clipped$
    select case when octet_length(what) <= most then what
                when octet_length(left(what, most)) <= most then left(what, most)
                -- No character has more than four bytes.
                else left(what, most / 4) end
$clipped$;
revoke execute on function {schema}.clipped(text, integer) from public;

-- Records other ends of hand-outs than success, as `settle_external` does: 'retry' (after its delay, or else by the policy of the job), 'dead', 'snooze' and
-- 'release'. One call has one verdict.
create function {schema}.end_taken(
    called text, ids uuid[], tokens uuid[], verdict text, errors text[], details text[], delay interval, strict boolean
) returns setof uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $end$
declare
    secret constant bytea := (select k.key from {schema}.report_key k);
    remembers constant boolean := coalesce(current_setting('jobwright.history', true), '') in ('all', 'failed');
    known uuid[];
begin
    perform {schema}.check_tokens(called, ids, tokens);
    perform {schema}.check_list(called, 'errors', errors, ids), {schema}.check_list(called, 'details', details, ids);
    if extract(epoch from delay) not between 0 and 3162240000 then
        raise exception 'jobwright.%: the delay is %; use 0 to 100 years', called, delay using errcode = 'invalid_parameter_value';
    end if;
    if verdict <> 'release' then
        perform {schema}.admit_next(ids, tokens);
    end if;
    with gone as (
        delete from {schema}.external_job e
        where e.id = any (ids) and e.worker is not null
          and {schema}.token_of(secret, e.id, e.version) = tokens[array_position(ids, e.id)]
        returning e.*
    ),
    judged as materialized (
        select g.*,
               end_taken.verdict = 'dead' or end_taken.verdict = 'retry' and g.attempt >= g.max_attempts as dies,
               {schema}.clipped(end_taken.errors[array_position(ids, g.id)], 1024) as error,
               {schema}.clipped(end_taken.details[array_position(ids, g.id)], 4096) as detail
        from gone g
    ),
    noted as materialized (
        select j.*, case when j.error is null then j.errors
                         else {schema}.with_error(j.errors, jsonb_strip_nulls(jsonb_build_object(
                                  'attempt', j.attempt, 'at', clock_timestamp(), 'node', 0, 'error', j.error, 'detail', j.detail))) end as all_errors
        from judged j
    ),
    released as (
        insert into {schema}.job (seq, created_at, id, max_attempts, rank, kind, queue, payload, body, content_type, headers,
                                  version, attempt, errors, options, admitted)
        select n.seq, n.created_at, n.id, n.max_attempts, n.rank, n.kind, n.queue, n.payload, n.body, n.content_type, n.headers,
               n.version & 2147483647, greatest(n.attempt - 1, 0), n.all_errors, n.options, n.admitted
        from noted n
        where end_taken.verdict = 'release'
        on conflict (id) do nothing
    ),
    again as (
        insert into {schema}.timer_job (seq, created_at, id, max_attempts, rank, kind, queue, payload, body, content_type, headers,
                                        version, due_at, attempt, errors, options)
        select n.seq, n.created_at, n.id, n.max_attempts, n.rank, n.kind, n.queue, n.payload, n.body, n.content_type, n.headers,
               n.version & 2147483647, clock_timestamp() + coalesce(extract(epoch from end_taken.delay) * interval '1 second', {schema}.retry_delay(n.options ->> 'retry', n.attempt)),
               case end_taken.verdict when 'snooze' then greatest(n.attempt - 1, 0) else n.attempt end, n.all_errors, n.options
        from noted n
        where not n.dies and end_taken.verdict in ('retry', 'snooze')
        on conflict (id) do nothing
    ),
    dead_lettered as (
        insert into {schema}.dead_letter_job (seq, created_at, id, max_attempts, rank, kind, queue, payload, body, content_type, headers,
                                              version, attempt, reason, errors, options)
        select n.seq, n.created_at, n.id, n.max_attempts, n.rank, n.kind, n.queue, n.payload, n.body, n.content_type, n.headers,
               n.version & 2147483647, n.attempt, coalesce(n.error, 'attempts exhausted'), n.all_errors, n.options
        from noted n
        where n.dies
        on conflict (id) do nothing
    ),
    remembered as (
        insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
        select n.id, n.seq, n.kind, n.queue, case when n.dies then 'dead' else 'failed' end, n.attempt, n.created_at, n.handed_at, 0,
               n.options ->> 'tenant', n.error
        from noted n
        where remembers and (n.dies or end_taken.verdict = 'retry')
    )
    select coalesce(array_agg(g.id), '{}') into known from gone g;
    if cardinality(known) < cardinality(ids) then
        perform {schema}.refuse_late(called, ids, tokens, known, true, strict);
    end if;
    return query select unnest(known);
end
$end$;
revoke execute on function {schema}.end_taken(text, uuid[], uuid[], text, text[], text[], interval, boolean) from public;

-- Adds an error to those of a job, of which it keeps the last ten. Anything else than a list is dropped, as in the fragment `kept_errors`.
create function {schema}.with_error(errors jsonb, entry jsonb) returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $errors$
    select case when jsonb_typeof(errors) = 'array' and pg_column_size(errors) <= 65536
                then case when jsonb_array_length(errors) < 10 then errors
                          else jsonb_path_query_array(errors, 'lax $[last - 10 + 2 to last]') end
                else '[]' end || entry
$errors$;

-- Records failures: the jobs run again after `retry`, or without it by their retry policies, and become dead letters after their last attempts, or at once
-- with `dead`.
create function {schema}.fail_many(
    ids     uuid[],
    tokens  uuid[],
    errors  text[],
    details text[] default null,
    retry   interval default null,
    dead    boolean default false,
    strict  boolean default true
) returns setof uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $fail$
begin
    if errors is null or array_ndims(errors) is distinct from array_ndims(ids) or cardinality(errors) <> cardinality(ids) or array_position(errors, null) is not null then
        raise exception 'jobwright.fail: an error text is missing; give one for each job' using errcode = 'invalid_parameter_value';
    end if;
    return query select {schema}.end_taken('fail', ids, tokens, case when coalesce(dead, false) then 'dead' else 'retry' end, errors, details, retry, strict);
end
$fail$;

revoke execute on function {schema}.fail_many(uuid[], uuid[], text[], text[], interval, boolean, boolean) from public;
comment on function {schema}.fail_many is 'records failures of jobs, in the caller''s transaction; docs/sql.md';

create function {schema}.fail(
    id     uuid,
    token  uuid,
    error  text,
    detail text default null,
    retry  interval default null,
    dead   boolean default false,
    strict boolean default true
) returns boolean
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $fail$ select exists (select {schema}.fail_many(array[id], array[token], array[error], array[detail], retry, dead, strict)) $fail$;

revoke execute on function {schema}.fail(uuid, uuid, text, text, interval, boolean, boolean) from public;
comment on function {schema}.fail is 'records a failure of a job, in the caller''s transaction; docs/sql.md';

-- Makes a job run again after `delay`, at no attempt.
create function {schema}.later(id uuid, token uuid, delay interval, strict boolean default true) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $later$
begin
    if delay is null then
        raise exception 'jobwright.later: the delay is null; `release` makes a job wait again at once' using errcode = 'invalid_parameter_value';
    end if;
    return exists (select {schema}.end_taken('later', array[id], array[token], 'snooze', null, null, delay, strict));
end
$later$;

revoke execute on function {schema}.later(uuid, uuid, interval, boolean) from public;
comment on function {schema}.later is 'makes a job run again later, at no attempt; docs/sql.md';

-- Gives jobs back that were taken and not begun: they wait again at once, at no attempt.
create function {schema}.release_many(ids uuid[], tokens uuid[], strict boolean default true) returns setof uuid
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $release$ select {schema}.end_taken('release', ids, tokens, 'release', null, null, null, strict) $release$;

revoke execute on function {schema}.release_many(uuid[], uuid[], boolean) from public;
comment on function {schema}.release_many is 'gives jobs back at no attempt; docs/sql.md';

create function {schema}.release(id uuid, token uuid, strict boolean default true) returns boolean
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $release$ select exists (select {schema}.release_many(array[id], array[token], strict)) $release$;

revoke execute on function {schema}.release(uuid, uuid, boolean) from public;
comment on function {schema}.release is 'gives a job back at no attempt; docs/sql.md';

-- Renews leases from now on, for `lease` or for as long as before, and returns when each ends. A job that is no longer handed out under its token is the error
-- JW002 (JW003, if it was cancelled), or with `strict => false` its row says `lost` or `cancelled`. One that another transaction has locked, because it is just
-- ending the job or taking it away, keeps its lease (`ending`), and no call waits for it. A lease that is over, while nothing was taken from its worker, can be renewed.
create function {schema}.extend_many(ids uuid[], tokens uuid[], lease interval default null, strict boolean default true)
returns table (id uuid, state text, lease_until timestamptz)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $extend$
#variable_conflict use_column
declare
    secret constant bytea := (select k.key from {schema}.report_key k);
    length constant interval := extract(epoch from extend_many.lease) * interval '1 second';
    extended uuid[];
    known uuid[];
begin
    perform {schema}.check_tokens('extend', ids, tokens);
    if extract(epoch from extend_many.lease) not between 1 and 86400 then
        raise exception 'jobwright.extend: the lease is %; use 1 second to 1 day', extend_many.lease using errcode = 'invalid_parameter_value';
    end if;
    with renewed as (
        update {schema}.external_job e
        set lease_until = clock_timestamp() + coalesce(length, e.lease), lease = coalesce(length, e.lease)
        where e.ctid = any (array(
            select o.ctid
            from {schema}.external_job o
            where o.id = any (ids) and o.worker is not null
              and {schema}.token_of(secret, o.id, o.version) = tokens[array_position(ids, o.id)]
            for no key update skip locked
        ))
        returning e.id
    )
    select coalesce(array_agg(r.id), '{}') into extended from renewed r;
    known := array(select e.id from {schema}.external_job e
                   where e.id = any (ids) and e.worker is not null
                     and {schema}.token_of(secret, e.id, e.version) = tokens[array_position(ids, e.id)]);
    if cardinality(known) < cardinality(ids) then
        perform {schema}.refuse_late('extend', ids, tokens, known, false, strict);
    end if;
    return query
        select a.id,
               case when a.id = any (extended) then 'held'
                    when a.id = any (known) then 'ending'
                    when exists (select from {schema}.terminating_handler t
                                 where t.job_id = a.id and t.worker is not null and {schema}.token_of(secret, t.job_id, t.version) = a.token) then 'cancelled'
                    else 'lost' end,
               (select e.lease_until from {schema}.external_job e where e.id = a.id and a.id = any (known))
        from unnest(ids, tokens) with ordinality as a(id, token, place)
        order by a.place;
end
$extend$;

revoke execute on function {schema}.extend_many(uuid[], uuid[], interval, boolean) from public;
comment on function {schema}.extend_many is 'renews the leases of jobs; docs/sql.md';

create function {schema}.extend(id uuid, token uuid, lease interval default null, strict boolean default true) returns timestamptz
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $extend$ select x.lease_until from {schema}.extend_many(array[id], array[token], lease, strict) x $extend$;

revoke execute on function {schema}.extend(uuid, uuid, interval, boolean) from public;
comment on function {schema}.extend is 'renews the lease of a job; docs/sql.md';

-- Notes how far a job has got, and from where its next attempt goes on. What is null stays as it was. Call it in a transaction of its own, so that it stays
-- if the work is rolled back. The lock that it takes lets leases be renewed, and keeps the job from being handed out again before this is written.
create function {schema}.progress(
    id         uuid,
    token      uuid,
    percent    integer default null,
    note       text default null,
    checkpoint jsonb default null,
    strict     boolean default true
) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $progress$
#variable_conflict use_column
declare
    secret constant bytea := (select k.key from {schema}.report_key k);
begin
    perform {schema}.check_tokens('progress', array[progress.id], array[progress.token]);
    if progress.percent not between 0 and 100 then
        raise exception 'jobwright.progress: percent is %; use 0 to 100', progress.percent using errcode = 'invalid_parameter_value';
    end if;
    if octet_length(progress.checkpoint::text) > 16384 then
        raise exception 'jobwright.progress: the checkpoint has % bytes, 16384 are the most: store it elsewhere and send a reference', octet_length(progress.checkpoint::text)
            using errcode = 'invalid_parameter_value';
    end if;
    insert into {schema}.progress as p (job_id, percent, note, checkpoint)
    select e.id, progress.percent, {schema}.clipped(progress.note, 1024), progress.checkpoint
    from {schema}.external_job e
    where e.id = progress.id and e.worker is not null and {schema}.token_of(secret, e.id, e.version) = progress.token
    for key share
    on conflict (job_id) do update
    set percent = coalesce(excluded.percent, p.percent), note = coalesce(excluded.note, p.note),
        checkpoint = coalesce(excluded.checkpoint, p.checkpoint), at = excluded.at;
    if not found then
        perform {schema}.refuse_late('progress', array[progress.id], array[progress.token], '{}', false, progress.strict);
        return false;
    end if;
    return true;
end
$progress$;

revoke execute on function {schema}.progress(uuid, uuid, integer, text, jsonb, boolean) from public;
comment on function {schema}.progress is 'notes how far a job has got; docs/sql.md';

-- ==== Cancelling by SQL ====

-- Returns the digest that `send` computes from a kind and a unique key.
create function {schema}.unique_digest(kind text, unique_key text) returns bytea
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $digest$
    select sha256(string_agg(int8send(octet_length(part)::int8) || part, ''::bytea order by n))
    from unnest(array[convert_to('jobwright unique 1', 'UTF8'), convert_to('key', 'UTF8'), convert_to(kind, 'UTF8'), ''::bytea,
                      convert_to(unique_key, 'UTF8')]) with ordinality as parts(part, n)
$digest$;
revoke execute on function {schema}.unique_digest(text, text) from public;

-- Cancels a job by its id, or the job that holds a unique key of its kind, and returns whether there was one that had not ended. It is for triggers: an order is
-- deleted, and so is its reminder. As with `jobwright jobs cancel`, a running job is gone at once, its handler is told, and its group stays taken until that has
-- ended; a dead letter is left alone. No audit entry is written, because the caller is a program.
-- It runs with its owner's rights, which a sender has not: whoever may call it can cancel any job. A job that another transaction is moving between the tables is
-- looked for again; each statement has a new snapshot, but in a transaction with an old one it may be missed. It waits for a worker's transaction that is
-- just ending the job, and for no longer than three seconds.
create function {schema}.cancel(id uuid default null, kind text default null, unique_key text default null) returns boolean
language plpgsql volatile
security definer
set lock_timeout = '3s'
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $cancel$
declare
    wanted uuid := cancel.id;
    digest bytea;
    gone integer;
    -- As in `remove_replaced`.
    ended constant text := coalesce(current_setting('jobwright.ended', true), '');
    released constant text := coalesce(current_setting('jobwright.released', true), '');
begin
    if (cancel.id is null) = (cancel.unique_key is null) or (cancel.unique_key is null) <> (cancel.kind is null) then
        raise exception 'jobwright.cancel: give the id of a job, or else its kind and unique_key' using errcode = 'invalid_parameter_value';
    end if;
    if cancel.unique_key is not null then
        digest := {schema}.unique_digest(cancel.kind, cancel.unique_key);
        select k.job_id into wanted from {schema}.unique_key k where k.key = digest;
        if not found then
            return false;
        end if;
    end if;
    for tries in 1..3 loop
        begin
            perform set_config('jobwright.ended', '', true), set_config('jobwright.released', '', true);
            with gone as (
                delete from {schema}.job t
                where t.id = wanted and (digest is null or {schema}.key_of(t.options) = digest)
                returning t.id, t.version::bigint, t.lock_owner, t.admitted, t.seq, t.kind, t.queue, t.attempt, t.created_at, t.claimed_at as started_at, t.options
            ),
            gone_timer as (
                delete from {schema}.timer_job t
                where t.id = wanted and (digest is null or {schema}.key_of(t.options) = digest)
                returning t.id, t.seq, t.kind, t.queue, t.attempt, t.created_at, t.options
            ),
            gone_suspended as (
                delete from {schema}.suspended_job t
                where t.id = wanted and (digest is null or {schema}.key_of(t.options) = digest)
                returning t.id, t.seq, t.kind, t.queue, t.attempt, t.created_at, t.options
            ),
            gone_external as (
                delete from {schema}.external_job t
                where t.id = wanted and (digest is null or {schema}.key_of(t.options) = digest)
                returning t.id, t.version, t.lease_until, t.admitted, t.worker, t.seq, t.kind, t.queue, t.attempt, t.created_at, t.handed_at as started_at, t.options
            ),
            still_running as (
                insert into {schema}.terminating_handler (job_id, version, node, until, worker)
                select g.id, g.version, g.lock_owner, null::timestamptz, null::text from gone g where g.lock_owner is not null and g.admitted
                union all
                select g.id, g.version, null, g.lease_until, g.worker from gone_external g where g.admitted or g.worker is not null
            ),
            ended as (
                select g.id, g.seq, g.kind, g.queue, g.attempt, g.created_at, g.started_at, g.lock_owner::bigint as node, g.options from gone g
                union all select g.id, g.seq, g.kind, g.queue, g.attempt, g.created_at, null, null, g.options from gone_timer g
                union all select g.id, g.seq, g.kind, g.queue, g.attempt, g.created_at, null, null, g.options from gone_suspended g
                union all select g.id, g.seq, g.kind, g.queue, g.attempt, g.created_at, g.started_at, 0, g.options from gone_external g
            ),
            remembered as (
                insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
                select e.id, e.seq, e.kind, e.queue, 'cancelled', e.attempt, e.created_at, e.started_at, e.node, e.options ->> 'tenant'
                from ended e
                where coalesce(current_setting('jobwright.history', true), '') = 'all'
            )
            select count(*) into gone from ended;
            perform set_config('jobwright.ended', ended, true), set_config('jobwright.released', released, true);
        exception when lock_not_available then
            raise exception 'jobwright.cancel: the job % is locked by another transaction, which may be just ending it: nothing was cancelled; try again', wanted
                using errcode = 'lock_not_available';
        end;
        if gone > 0 then
            return true;
        end if;
        if not exists (select from {schema}.jobs j where j.id = wanted and j.state <> 'dead' and (digest is null or {schema}.key_of(j.options) = digest)) then
            return false;
        end if;
    end loop;
    raise exception 'jobwright.cancel: the job % could not be cancelled, because others are moving it: try again', wanted using errcode = 'serialization_failure';
end
$cancel$;
revoke execute on function {schema}.cancel(uuid, text, text) from public;

comment on function {schema}.cancel is 'cancels a job by its id, or by its kind and unique key, in the caller''s transaction; docs/sql.md';
