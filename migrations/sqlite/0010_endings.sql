-- Handlers whose job was cancelled while they ran, and what their jobs held. The row of such a job is gone at once, but its handler still runs:
-- its group and its places under limits stay taken until the node says that the handler has ended, or is dead or retired. As in PostgreSQL;
-- docs/adr/0055-endings.md says why it is shaped so.

-- holder: stands for the job in jobwright_slot, because the same id may be sent again and waits like any other. node: whose handler; null = of an
-- external worker, whose lease ends at `until`.
create table jobwright_ending (
    holder  blob primary key,
    job_id  blob not null,
    version integer not null,
    node    integer,
    until   integer,
    check ((node is null) = (until is not null))
) strict, without rowid;

create index jobwright_ending_job on jobwright_ending (job_id, version);
create index jobwright_ending_until on jobwright_ending (until) where until is not null;

-- Hands what a job holds over to its ending, before the job's row is gone and the trigger there frees it.
create trigger jobwright_ending_keep after insert on jobwright_ending
begin
    update jobwright_slot set job_id = new.holder where job_id = new.job_id;
end;

-- Frees what a handler held, whoever says that it has ended.
create trigger jobwright_ending_free after delete on jobwright_ending
begin
    insert into jobwright_opening (key) select key from jobwright_slot where job_id = old.holder;
    delete from jobwright_slot where job_id = old.holder;
end;

-- When a key was taken for a period: one that was taken while the clock was ahead is held for as long as was asked for, and no longer
-- (docs/adr/0054-a-clock-that-was-ahead.md).
alter table jobwright_unique_key add column taken_at integer;
