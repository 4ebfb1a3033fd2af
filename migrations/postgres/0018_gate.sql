-- Jobs that wait at a gate are rows of `job`, with the gate in a column, and not of a table of their own: a claim takes one from behind its gate
-- where it is, with the one update that it costs any other job, and whoever gives it back leaves it where it was. docs/adr/0060 says why.

alter table {schema}.job add column gate text, add column share text;

comment on column {schema}.job.gate is 'what it waits for: a group (g:), or a limit by queue (q:), kind (k:), tenant (t:) or limit key (l:); null = nothing';
comment on column {schema}.job.share is 'whose share of that gate it takes: a tenant or a kind, where the rule has shares; empty = nobody''s';
comment on column {schema}.job.admitted is 'holds what it needs to start, until the row is gone, whoever owns it; with a gate: the first of its group, which holds that while it waits for a limit';

-- Claims never see what waits at a gate, however much that is. Nor does the gate keep a claim from staying within its page: it doesn't change it.
drop index {schema}.job_acquire;
create index job_acquire on {schema}.job (queue, rank, seq) with (fillfactor = 97) where gate is null;
-- The best behind a gate: read from the front.
create index job_gate on {schema}.job (gate, share, rank, seq) where gate is not null;
-- How many wait in a queue that may hold no more than so many, and the pages of listings.
create index job_blocked on {schema}.job (queue, seq) where gate is not null;

-- Whoever holds a group can be a node: it runs several jobs of it, one after the other, and gives the group back after the last of them. Its
-- hold is like an owned row: made by a claim, known by its number, and freed when the node is dead.
alter table {schema}.slot add column node integer, add column version integer, add check ((node is null) = (version is null));
create index slot_node on {schema}.slot (node) where node is not null;

comment on column {schema}.slot.job_id is 'the job that holds it; or the handler of one that was cancelled (ending.holder), or the lease of a node';
comment on column {schema}.slot.node is 'the node whose lease it is, which runs jobs of this group one after the other';
comment on column {schema}.slot.version is 'number of the claim that made or renewed the lease';

create or replace function {schema}.block_job() returns trigger
language plpgsql
-- With its owner's rights: whoever may send a job need not be able to write into the engine's tables.
security definer
set search_path = pg_catalog, pg_temp
as $block$
begin
    if '"' || tg_table_schema || '"' <> '{schema}' then
        raise exception '% is for the tables of {schema}, and not for %', tg_name, tg_relid::regclass using errcode = 'insufficient_privilege';
    end if;
    new.gate := 'g:' || (new.terms ->> 'group');
    new.share := '';
    insert into {schema}.opening (key) values (new.gate);
    return new;
end
$block$;

drop trigger job_block on {schema}.job;
create trigger job_block before insert on {schema}.job for each row
    when (new.terms is not null and new.gate is null and not new.admitted and new.terms ? 'group')
    execute function {schema}.block_job();

insert into {schema}.job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors,
                          terms, admitted, gate, share)
select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors,
       terms, admitted, gate, share
from {schema}.blocked_job
on conflict (id) do nothing;

-- The same functions without that table.

create or replace function {schema}.free_slots() returns trigger
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
    if old.terms ? 'ordered' and (exists (select from {schema}.timer_job where id = old.id)
                                  or exists (select from {schema}.dead_letter_job where id = old.id)
                                  or exists (select from {schema}.suspended_job where id = old.id)
                                  or exists (select from {schema}.job where id = old.id)) then
        kept := 'g:' || (old.terms ->> 'group');
    end if;
    with freed as (
        delete from {schema}.slot where job_id = old.id and key is distinct from kept returning key
    )
    insert into {schema}.opening (key) select key from freed;
    return null;
end
$free$;

create or replace function {schema}.free_ended() returns trigger
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
    -- Some may not have ended: their claim was an old one, or their id was sent again. Who is admitted keeps all that it holds (no key here), and
    -- an ordered job its group, wherever it is.
    with kept as materialized (
        select id, null::text as key from {schema}.job where id = any (ended) and admitted
        union all
        select id, null from {schema}.external_job where id = any (ended) and admitted
        union all
        select id, 'g:' || (terms ->> 'group') from {schema}.job where id = any (ended) and terms ? 'ordered'
        union all
        select id, 'g:' || (terms ->> 'group') from {schema}.timer_job where id = any (ended) and terms ? 'ordered'
        union all
        select id, 'g:' || (terms ->> 'group') from {schema}.dead_letter_job where id = any (ended) and terms ? 'ordered'
        union all
        select id, 'g:' || (terms ->> 'group') from {schema}.suspended_job where id = any (ended) and terms ? 'ordered'
    ),
    freed as (
        delete from {schema}.slot
        where job_id = any (ended)
          and not exists (select from kept where kept.id = slot.job_id and (kept.key is null or kept.key = slot.key))
        returning key
    )
    insert into {schema}.opening (key, n) select key, count(*) from freed group by key;
    return null;
end
$free$;

create or replace function {schema}.release_unique() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $release$
begin
    if '"' || tg_table_schema || '"' <> '{schema}' then
        raise exception '% is for the tables of {schema}, and not for %', tg_name, tg_relid::regclass using errcode = 'insufficient_privilege';
    end if;
    if exists (select from {schema}.job where id = old.id)
        or exists (select from {schema}.timer_job where id = old.id)
        or exists (select from {schema}.external_job where id = old.id)
        or exists (select from {schema}.dead_letter_job where id = old.id)
        or exists (select from {schema}.suspended_job where id = old.id) then
        return null;
    end if;
    delete from {schema}.unique_key
    where ctid = any (array(
        select ctid from {schema}.unique_key where job_id = old.id and hold <> 'period' for update skip locked
    ));
    return null;
end
$release$;

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
        where not exists (select from {schema}.job t where t.id = i.id)
          and not exists (select from {schema}.timer_job t where t.id = i.id)
          and not exists (select from {schema}.suspended_job t where t.id = i.id)
          and not exists (select from {schema}.dead_letter_job t where t.id = i.id)
          and not exists (select from {schema}.external_job t where t.id = i.id);
end
$new$;

create or replace function {schema}.try_unique(keys bytea[], ids uuid[], holds text[], periods int8[], conflicts text[])
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
            select k.job_id, k.hold, k.expires_at,
                   exists (select from {schema}.job t where t.id = k.job_id and t.lock_owner is null)
                   or exists (select from {schema}.timer_job t where t.id = k.job_id)
                   or exists (select from {schema}.suspended_job t where t.id = k.job_id) as waits,
                   exists (select from {schema}.job t where t.id = k.job_id)
                   or exists (select from {schema}.external_job t where t.id = k.job_id)
                   or exists (select from {schema}.dead_letter_job t where t.id = k.job_id) as goes_on
            into held
            from {schema}.unique_key k where k.key = ask.key;
            -- Gone in between: ask again.
            continue when not found;
            is_held := case held.hold when 'period' then held.expires_at > clock_timestamp()
                                      when 'waiting' then held.waits
                                      else held.waits or held.goes_on end;
            if not is_held then
                update {schema}.unique_key k set job_id = ask.id, hold = ask.hold, expires_at = ask.until
                where k.key = ask.key and k.job_id = held.job_id and k.expires_at is not distinct from held.expires_at;
                -- Another one was faster: ask again.
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
                delete from {schema}.job t where t.id = held.job_id and t.lock_owner is null;
                if not found then
                    delete from {schema}.timer_job t where t.id = held.job_id;
                end if;
                if found then
                    insert into {schema}.unique_key as k (key, job_id, hold, expires_at) values (ask.key, ask.id, ask.hold, ask.until)
                    on conflict (key) do update set job_id = excluded.job_id, hold = excluded.hold, expires_at = excluded.expires_at;
                    return query select ask.n, 'replaced'::text, held.job_id;
                    exit;
                end if;
                -- It was just taken. What holds only while it waits is free now: ask again. One that is set aside waits on, and is kept.
                continue when held.hold = 'waiting'
                    and not exists (select from {schema}.suspended_job t where t.id = held.job_id);
            end if;
            return query select ask.n, 'kept'::text, held.job_id;
            exit;
        end loop;
    end loop;
end
$try$;

-- An ordered job may hold its group when its row is gone, and while it waits at its gate: only the row says so.
drop trigger job_free on {schema}.job;
create trigger job_free after delete on {schema}.job for each row
    when (old.terms ? 'ordered' or old.admitted and coalesce(current_setting('jobwright.ended', true), '') = '')
    execute function {schema}.free_slots();

create or replace view {schema}.jobs as
    select id, seq, case when lock_owner is not null then 'running' when gate is not null then 'blocked' else 'waiting' end as state, kind, queue,
           -rank as priority, attempt, max_attempts, version::bigint, created_at, null::timestamptz as due_at, lock_owner::bigint as owner,
           claimed_at, null::timestamptz as dead_at, null::text as reason, payload, body, content_type, headers, errors,
           terms, gate
    from {schema}.job
    union all
    select id, seq, 'external', kind, queue, -rank, attempt, max_attempts, version, created_at, null, null, null,
           null, null, payload, body, content_type, headers, errors, terms, null
    from {schema}.external_job
    union all
    select id, seq, 'timer', kind, queue, -rank, attempt, max_attempts, version, created_at, due_at, null, null,
           null, null, payload, body, content_type, headers, errors, terms, null
    from {schema}.timer_job
    union all
    select id, seq, 'suspended', kind, queue, -rank, attempt, max_attempts, version, created_at, due_at, null, null,
           null, null, payload, body, content_type, headers, errors, terms, null
    from {schema}.suspended_job
    union all
    select id, seq, 'dead', kind, queue, -rank, attempt, max_attempts, version, created_at, null, null, null,
           dead_at, reason, payload, body, content_type, headers, errors, terms, null
    from {schema}.dead_letter_job;

drop table {schema}.blocked_job;
