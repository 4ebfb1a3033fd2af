-- The limits of queues and kinds are counted by the claims themselves: how many jobs each node runs under a limit is one row, which that node's
-- claims write, and no job has a slot. docs/adr/0063 says why.

create table {schema}.usage (
    key     text not null,
    node    integer not null,
    n       integer not null check (n >= 0),
    wants   integer not null check (wants >= 0),
    version integer not null,
    first   integer not null,
    at      timestamptz not null,
    primary key (key, node)
-- Room for the next version of a row on its page: it is written with each claim.
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

comment on table {schema}.usage is 'what nodes run under limits that their claims count: of a queue (q:) or a kind (k:)';
comment on column {schema}.usage.n is 'jobs that this node ran under it at most when it last claimed, with those it claimed then';
comment on column {schema}.usage.wants is 'how many more it would have taken';
comment on column {schema}.usage.version is 'number of that claim';
comment on column {schema}.usage.first is 'number of the first claim that counted: jobs of earlier ones hold slots';

-- Jobs that were admitted hold what they need, and need not wait for those before them that may not start.
create index job_admitted on {schema}.job (queue, rank, seq) where admitted;

-- Whether a rule is one that claims can count by themselves. Shares are weighed by rounds, and under the rule of all kinds each kind of a program would
-- be a claim of its own. While there is any limit of another sort, rounds admit whatever is limited: they find its jobs by a look at the front of each
-- queue, where those that nobody admits would be in their way.
create function {schema}.is_simple(scope text, name text, shares jsonb) returns boolean
language sql immutable parallel safe
as $simple$ select shares is null and (scope = 'queue' or scope = 'kind' and name <> '*') $simple$;

-- What is decided by counting can't be decided twice: whoever counts under one of these keys waits for whoever does so at this moment. Locks are
-- numbers (store/postgres/counting.rs), taken in their order.
create function {schema}.lock_limits(locks bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $lock$
declare
    lock bigint;
begin
    for lock in select distinct l from unnest(locks) l order by l loop
        perform pg_advisory_xact_lock(lock);
    end loop;
end
$lock$;

-- How many jobs a claim may start that no round has admitted, at most `most`; if a rate allows none, after how many microseconds it will; whether
-- a gate was opened; under which keys they are to be counted, with what the node runs of each already (`mine`), or with the part of the period
-- within which starts are counted together; and under which of them (by their place) the node is to count anew, from none: what it ran before this limit
-- was set holds slots (adopt.sql), or null if nothing was counted: somebody held a key for too long, or a later claim of the node has counted. `simple`:
-- claims count by themselves now. `passed`: others wait at a gate, and got nothing by chance.
-- A function, because each of its statements sees what was committed while the one before it waited, and one statement alone does not.
create function {schema}.allowance(node bigint, claim integer, locks bigint[], keys text[], scopes text[], names text[], mine integer[], most bigint)
returns table (n bigint, wait bigint, opened boolean, limited text[], runs integer[], rated text[], parts bigint[], anew integer[], simple boolean, passed boolean)
language plpgsql volatile rows 1
set search_path = pg_catalog, pg_temp
-- Whoever counts is done within milliseconds. A round may hold a key for longer, when its process is frozen.
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
    gated bigint;
    here constant bigint := allowance.node;
    this constant integer := allowance.claim;
    best bigint := allowance.most;
    pause bigint;
    opens boolean := false;
    missed boolean := false;
    under text[] := '{}';
    counts integer[] := '{}';
    timed text[] := '{}';
    times bigint[] := '{}';
    news integer[] := '{}';
begin
    begin
        perform {schema}.lock_limits(allowance.locks);
    exception when lock_not_available then
        return query select 0::bigint, null::bigint, false, under, counts, timed, times, null::integer[], true, false;
        return;
    end;
    if exists (select from {schema}.rule r where (r.running is not null or r.rate is not null) and not {schema}.is_simple(r.scope, r.name, r.shares)) then
        -- Rounds admit whatever is limited.
        return query select best, null::bigint, false, under, counts, timed, times, news, false, false;
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
                   count(*) filter (where u.node <> here and (u.n > 0 or u.wants > 0 and u.at > clock_timestamp() - interval '5 seconds')) as parties,
                   coalesce(bool_or(u.node <> here and u.wants > 0 and u.at > clock_timestamp() - interval '5 seconds'), false) as wanted,
                   coalesce(bool_or(u.node = here), false) as known,
                   coalesce(bool_or(u.node = here and (u.version::bigint - this + 2147483648) % 2147483648 between 1 and 1073741823), false) as late
            into used
            from {schema}.usage u
            where u.key = asked.key;
            if used.late then
                -- Nobody waits for this claim any more, and what it was told of its node was true once.
                return query select 0::bigint, null::bigint, false, '{}'::text[], '{}'::integer[], '{}'::text[], '{}'::bigint[], null::integer[], true, false;
                return;
            end if;
            if not used.known then
                asked.mine := 0;
                news := news || asked.place;
            end if;
            free := rule.running - asked.mine - used.others - (select count(*) from {schema}.slot s where s.key = asked.key);
            if used.wanted then
                -- Others want some too: to each the same.
                free := least(free, (rule.running + used.parties) / (used.parties + 1) - asked.mine);
            end if;
            free := greatest(free, 0);
            if free > 0 and exists (select from {schema}.job j where j.gate = asked.key and j.lock_owner is null) then
                -- Others wait for the same at the gate (with a group, or under another limit), where only a round sees them: half is for them,
                -- and the odd one now and then. Who takes none leaves them all.
                gated := case when best = 0 then free else (free + (random() < 0.5)::integer) / 2 end;
                missed := missed or gated = 0;
                free := free - gated;
                if gated > 0 then
                    insert into {schema}.opening (key, n)
                    select asked.key, gated
                    where not exists (select from {schema}.opening o where o.key = asked.key and o.opens_at <= clock_timestamp());
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
    return query select best, pause, opens, under, counts, timed, times, news, true, missed;
end
$allowance$;

-- Writes down starts under rates, after they were made: they count from the moment that is written, which is not before any of them. The locks of
-- these keys are held, so nobody else writes.
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
