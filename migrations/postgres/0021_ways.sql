-- For each lookup only one index is possible, because a node plans its statements once, often while the tables are empty, and then all ways cost the same.
-- docs/adr/0064 says what that did.

-- Only who asks for `gate > ''` can walk through all that waits: as the smallest index it was taken for the way to any gate and any id.
drop index {schema}.job_blocked;
create index job_blocked on {schema}.job (queue, seq) where gate > '';

-- The condition is that of the claim, word for word, and nobody else's.
drop index {schema}.job_admitted;
create index job_admitted on {schema}.job (queue, rank, seq) where admitted and coalesce(gate, '') = '';

-- By another collation than the primary key, which begins with the job. Who looks for a key names that collation, and asks for something that is in no
-- index: then the primary key is no way to it, from which all slots would be read.
drop index {schema}.slot_key;
create index slot_key on {schema}.slot (key collate "C");

-- As before (0018), but each id is looked up by itself: `not exists` could read all ids that there are.
create or replace function {schema}.new_ids(ids uuid[]) returns setof uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $new$
begin
    if cardinality(ids) = 0 then
        return;
    end if;
    insert into {schema}.deciding select distinct i.id from unnest(ids) as i(id) order by i.id on conflict (id) do nothing;
    delete from {schema}.deciding d where d.id = any (ids);
    return query
        select i.id
        from unnest(ids) as i(id)
        where (select t.id from {schema}.job t where t.id = i.id limit 1) is null
          and (select t.id from {schema}.timer_job t where t.id = i.id limit 1) is null
          and (select t.id from {schema}.suspended_job t where t.id = i.id limit 1) is null
          and (select t.id from {schema}.dead_letter_job t where t.id = i.id limit 1) is null
          and (select t.id from {schema}.external_job t where t.id = i.id limit 1) is null;
end
$new$;

-- As before (0020), but for how it counts slots.
create or replace function {schema}.allowance(node bigint, claim integer, locks bigint[], keys text[], scopes text[], names text[], mine integer[], most bigint)
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
            free := rule.running - asked.mine - used.others - (select count(s.ctid) from {schema}.slot s where s.key collate "C" = asked.key);
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
