-- Undoes install.sql, when no worker runs any more, as a role that may read and cancel all jobs (an operator's, or jobwright's owner): Flowable's own
-- executor finds the rows as they are, and needs none of the jobs.
--
--   psql -1 -v ON_ERROR_STOP=1 -f remove.sql "$DATABASE_URL"

drop function flowable_job_inserted, flowable_timer_inserted, flowable_timer_deleted cascade;

-- Dead letters are left for a person.
select count(*) filter (where jobwright.cancel(id)) as cancelled from jobwright.jobs where queue = 'flowable' and state <> 'dead';
