-- Unique jobs: who holds which key. docs/adr/0031-unique.md says why it is shaped so. A key whose job is nowhere is free for whoever asks.
create table jobwright_unique_key (
    key        blob primary key,
    job_id     blob not null,
    hold       text not null check (hold in ('waiting', 'done', 'period')),
    expires_at integer,
    check ((hold = 'period') = (expires_at is not null))
) strict, without rowid;

create index jobwright_unique_key_job on jobwright_unique_key (job_id);
create index jobwright_unique_key_expires on jobwright_unique_key (expires_at) where expires_at is not null;

-- Gives a key back when the last row of its job is gone. What moves a job writes the copy first.
create trigger jobwright_job_unique after delete on jobwright_job
when old.terms ->> 'unique' is not null
 and not exists (select 1 from jobwright_job where id = old.id)
 and not exists (select 1 from jobwright_timer_job where id = old.id)
 and not exists (select 1 from jobwright_blocked_job where id = old.id)
 and not exists (select 1 from jobwright_external_job where id = old.id)
 and not exists (select 1 from jobwright_dead_letter_job where id = old.id)
 and not exists (select 1 from jobwright_suspended_job where id = old.id)
begin
    delete from jobwright_unique_key where job_id = old.id and hold <> 'period';
end;

create trigger jobwright_external_job_unique after delete on jobwright_external_job
when old.terms ->> 'unique' is not null
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
when old.terms ->> 'unique' is not null
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
when old.terms ->> 'unique' is not null
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
when old.terms ->> 'unique' is not null
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
when old.terms ->> 'unique' is not null
 and not exists (select 1 from jobwright_job where id = old.id)
 and not exists (select 1 from jobwright_timer_job where id = old.id)
 and not exists (select 1 from jobwright_blocked_job where id = old.id)
 and not exists (select 1 from jobwright_external_job where id = old.id)
 and not exists (select 1 from jobwright_dead_letter_job where id = old.id)
 and not exists (select 1 from jobwright_suspended_job where id = old.id)
begin
    delete from jobwright_unique_key where job_id = old.id and hold <> 'period';
end;

-- How many wait in a queue that may hold no more than so many.
create index jobwright_blocked_job_queue on jobwright_blocked_job (queue);
