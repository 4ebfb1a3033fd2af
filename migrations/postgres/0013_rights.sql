-- Functions of triggers that run with the owner's rights: nobody else may put them on a table of their own. Whoever could, a role that may only read
-- included, would insert jobs and free groups by a temporary table. PostgreSQL asks for EXECUTE when a trigger is created and not when it fires, so
-- senders and executors need no grant. The look at the schema is the second line, for where somebody granted EXECUTE on all functions:
-- only who may create tables in this one gets past it.

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
    insert into {schema}.blocked_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                                      payload, body, content_type, headers, errors, terms, gate)
    values (new.seq, new.version, new.created_at, new.id, new.attempt, new.max_attempts, new.rank, new.kind, new.queue,
            new.payload, new.body, new.content_type, new.headers, new.errors, new.terms, 'g:' || (new.terms ->> 'group'))
    on conflict (id) do nothing;
    insert into {schema}.opening (key) values ('g:' || (new.terms ->> 'group'));
    return null;
end
$block$;

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
        or exists (select from {schema}.external_job where id = old.id and admitted)
        or exists (select from {schema}.blocked_job where id = old.id and admitted) then
        return null;
    end if;
    if old.terms ? 'ordered' and (exists (select from {schema}.timer_job where id = old.id)
                                  or exists (select from {schema}.dead_letter_job where id = old.id)
                                  or exists (select from {schema}.suspended_job where id = old.id)
                                  or exists (select from {schema}.blocked_job where id = old.id)) then
        kept := 'g:' || (old.terms ->> 'group');
    end if;
    with freed as (
        delete from {schema}.slot where job_id = old.id and key is distinct from kept returning key
    )
    insert into {schema}.opening (key) select key from freed;
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
        or exists (select from {schema}.blocked_job where id = old.id)
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

create or replace function {schema}.keep_slots() returns trigger
language plpgsql
-- With its owner's rights: whoever may cancel need not be able to give slots away.
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
    update {schema}.slot set job_id = new.holder where job_id = new.job_id;
    if not found then
        return null;
    end if;
    return new;
end
$keep$;

create or replace function {schema}.end_handler() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $end$
begin
    if '"' || tg_table_schema || '"' <> '{schema}' then
        raise exception '% is for the tables of {schema}, and not for %', tg_name, tg_relid::regclass using errcode = 'insufficient_privilege';
    end if;
    with freed as (
        delete from {schema}.slot where job_id = old.holder returning key
    )
    insert into {schema}.opening (key) select key from freed;
    return null;
end
$end$;

revoke execute on function {schema}.block_job() from public;
revoke execute on function {schema}.free_slots() from public;
revoke execute on function {schema}.release_unique() from public;
revoke execute on function {schema}.keep_slots() from public;
revoke execute on function {schema}.end_handler() from public;
