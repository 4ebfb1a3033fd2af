-- Handlers whose job was cancelled while they ran, and what their jobs held. The row of such a job is gone at once, but its handler still runs:
-- its group and its places under limits stay taken until the node says that the handler has ended, or is dead or retired. docs/adr/0055-endings.md
-- says why it is shaped so.

create table {schema}.ending (
    holder   uuid primary key default gen_random_uuid(),
    job_id   uuid not null,
    version  bigint not null,
    node     bigint,
    until    timestamptz,
    check ((node is null) = (until is not null))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

comment on table {schema}.ending is 'handlers that still run though their job was cancelled; they hold what it held';
comment on column {schema}.ending.holder is 'stands for the job in `slot`: the same id may be sent again, and waits like any other';
comment on column {schema}.ending.node is 'whose handler; null = of an external worker';
comment on column {schema}.ending.until is 'when the lease of that external worker ends';

create index ending_job on {schema}.ending (job_id, version);
create index ending_until on {schema}.ending (until) where until is not null;

-- Hands what a job holds over to the ending that is written, before the job's row is gone and the trigger there frees it. There is no ending
-- where nothing is held, and none for a node that answers for nothing any more.
--
-- A trigger and not a part of the statement that cancels: its look at `slot` comes when the job's row is locked, and sees what a round of
-- admission gave it while the statement waited for that lock. In the statement's own snapshot the job could have no slots yet.
create function {schema}.keep_slots() returns trigger
language plpgsql
-- With its owner's rights: whoever may cancel need not be able to give slots away.
security definer
set search_path = pg_catalog, pg_temp
as $keep$
begin
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

create trigger ending_keep before insert on {schema}.ending for each row execute function {schema}.keep_slots();

-- Frees what a handler held, whoever says that it has ended.
create function {schema}.end_handler() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $end$
begin
    with freed as (
        delete from {schema}.slot where job_id = old.holder returning key
    )
    insert into {schema}.opening (key) select key from freed;
    return null;
end
$end$;

create trigger ending_free after delete on {schema}.ending for each row execute function {schema}.end_handler();

-- When a key was taken for a period: one that was taken while the clock was ahead is held for as long as was asked for, and no longer
-- (docs/adr/0054-a-clock-that-was-ahead.md). Keys that were taken before this column was there have none.
alter table {schema}.unique_key add column taken_at timestamptz;

comment on column {schema}.unique_key.taken_at is 'when it was taken, if it is held for a period';

-- A trigger, because keys are taken by functions, in three places, and all of them mean the same moment.
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
