-- Sends a job for each row of Flowable's job tables, in the transaction that inserts the row, and one for each row that is there:
--
--   psql -1 -v ON_ERROR_STOP=1 -f install.sql "$DATABASE_URL"
--
-- Run it as the owner of the tables, with their schema as the current one. The functions run with this owner's rights, which are those of
-- `jobwright grants sender OWNER --with unique --with cancel`, so another role that inserts rows needs none. A timestamp of Flowable is without zone: set
-- that of the engine's machine here (PGTZ). docs/migrate/flowable.md says when to run this, and remove.sql undoes it. Jobs of other engines in these
-- tables (scope_type_) stay theirs.

-- Until the commit no row comes or goes, so none is left out or sent twice.
lock table act_ru_job, act_ru_timer_job in share row exclusive mode;

-- An executable job. An exclusive one starts after those of its instance, which replaces Flowable's lock of the instance. It is not cancelled
-- when its row is deleted: it is due at once, and then finds no row.
create function flowable_job_inserted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform jobwright.send('flowable-job', jsonb_build_object('id', new.id_), queue => 'flowable', tenant => nullif(new.tenant_id_, ''),
                           exclusive_group => case when new.exclusive_ then new.process_instance_id_ end);
    return null;
end
$$;
create trigger flowable_job_inserted after insert on act_ru_job
    for each row when (new.scope_type_ is null) execute function flowable_job_inserted();

-- A timer, or a retry of Flowable's: when it is due, the worker moves its row to act_ru_job.
create function flowable_timer_inserted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform jobwright.send('flowable-timer', jsonb_build_object('id', new.id_), queue => 'flowable', tenant => nullif(new.tenant_id_, ''),
                           due_at => new.duedate_::timestamptz, unique_key => new.id_);
    return null;
end
$$;
create trigger flowable_timer_inserted after insert on act_ru_timer_job
    for each row when (new.scope_type_ is null) execute function flowable_timer_inserted();

-- The instance was deleted, or a person moved the timer. Without this, a job would stay until the timer is due, in months perhaps. The worker says which
-- timer it moves itself: that job is just being ended.
create function flowable_timer_deleted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform jobwright.cancel(kind => 'flowable-timer', unique_key => old.id_);
    return null;
end
$$;
create trigger flowable_timer_deleted after delete on act_ru_timer_job
    for each row when (old.scope_type_ is null and current_setting('flowable.moved', true) is distinct from old.id_)
    execute function flowable_timer_deleted();

-- Those that are there.
select count(jobwright.send('flowable-job', jsonb_build_object('id', id_), queue => 'flowable', tenant => nullif(tenant_id_, ''),
                            exclusive_group => case when exclusive_ then process_instance_id_ end)) as jobs
from act_ru_job where scope_type_ is null;
select count(jobwright.send('flowable-timer', jsonb_build_object('id', id_), queue => 'flowable', tenant => nullif(tenant_id_, ''),
                            due_at => duedate_::timestamptz, unique_key => id_)) as timers
from act_ru_timer_job where scope_type_ is null;
